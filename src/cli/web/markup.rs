//! Markup that templates insert as it is: pictures, which a template of `graph` escapes, and Markdown of
//! descriptions, written here from what the parser says. Nothing else is inserted without escaping.

use std::fmt::{self, Write as _};

use askama::filters::{Html, HtmlSafe, escape};
use pulldown_cmark::{Event, HeadingLevel, Parser, Tag, TagEnd};

const SCHEMES: [&str; 3] = ["https://", "http://", "mailto:"];

/// Markup that is safe to insert.
#[derive(Debug, Clone, Default)]
pub(super) struct Markup(String);

impl fmt::Display for Markup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl HtmlSafe for Markup {}

impl Markup {
    /// Takes a picture as `graph` draws it.
    pub(super) fn picture(drawn: &str) -> Self {
        Self(drawn.to_owned())
    }

    /// Writes Markdown: HTML in it is shown as text, pictures become their alternative text, and
    /// links show where they lead.
    pub(super) fn markdown(text: &str) -> Self {
        let mut writer = Writer::default();
        for event in Parser::new(text) {
            writer.event(event);
        }
        Self(writer.out)
    }
}

#[derive(Default)]
struct Writer {
    out: String,
    /// Of each open link, what is shown behind it.
    links: Vec<Option<String>>,
}

impl Writer {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => self.text(&text),
            Event::Code(text) => {
                self.out.push_str("<code>");
                self.text(&text);
                self.out.push_str("</code>");
            }
            Event::SoftBreak => self.out.push('\n'),
            Event::HardBreak => self.out.push_str("<br/>"),
            Event::Rule => self.out.push_str("<hr/>"),
            // Extensions of the parser that are not switched on.
            Event::InlineMath(_)
            | Event::DisplayMath(_)
            | Event::FootnoteReference(_)
            | Event::TaskListMarker(_) => {}
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => self.write(format_args!("<{}>", heading(level))),
            Tag::List(Some(first)) => self.write(format_args!("<ol start=\"{first}\">")),
            Tag::Link { dest_url, .. } => self.link(&dest_url),
            other => {
                if let Some(name) = element(other.to_end()) {
                    self.write(format_args!("<{name}>"));
                }
            }
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Heading(level) => self.write(format_args!("</{}>\n", heading(level))),
            TagEnd::Link => {
                if let Some(Some(behind)) = self.links.pop() {
                    self.out.push_str("</a>");
                    self.out.push_str(" <small>(");
                    self.text(&behind);
                    self.out.push_str(")</small>");
                }
            }
            other => {
                if let Some(name) = element(other) {
                    self.write(format_args!("</{name}>\n"));
                }
            }
        }
    }

    fn link(&mut self, url: &str) {
        let shown = host(url).map(str::to_owned);
        if shown.is_some() {
            self.out.push_str("<a href=\"");
            self.text(url);
            self.out.push_str("\" rel=\"noreferrer noopener\">");
        }
        self.links.push(shown);
    }

    fn write(&mut self, markup: fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.out.write_fmt(markup);
    }

    fn text(&mut self, text: &str) {
        let Ok(escaped) = escape(text, Html);
        self.write(format_args!("{escaped}"));
    }
}

/// Returns where a link leads: its host, or the address of a mail; nothing if it may not be followed.
pub(super) fn host(url: &str) -> Option<&str> {
    let lower = url.to_ascii_lowercase();
    let scheme = SCHEMES.iter().find(|scheme| lower.starts_with(**scheme))?;
    let rest = &url[scheme.len()..];
    let host = if *scheme == "mailto:" {
        rest.split('?').next()
    } else {
        rest.split(['/', '?', '#', '\\']).next().and_then(|it| it.rsplit('@').next())
    };
    host.filter(|host| !host.is_empty())
}

/// Headings of descriptions stand below those of the page.
fn heading(level: HeadingLevel) -> &'static str {
    match level {
        HeadingLevel::H1 => "h3",
        HeadingLevel::H2 => "h4",
        HeadingLevel::H3 => "h5",
        HeadingLevel::H4 | HeadingLevel::H5 | HeadingLevel::H6 => "h6",
    }
}

/// Returns the element of a part of a text that has one and no attributes.
fn element(tag: TagEnd) -> Option<&'static str> {
    Some(match tag {
        TagEnd::Paragraph | TagEnd::HtmlBlock => "p",
        TagEnd::BlockQuote(_) => "blockquote",
        TagEnd::CodeBlock => "pre",
        TagEnd::List(true) => "ol",
        TagEnd::List(false) => "ul",
        TagEnd::Item => "li",
        TagEnd::Emphasis => "em",
        TagEnd::Strong => "strong",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::cases;

    #[test]
    fn markdown_becomes_few_elements() {
        for (name, (text, want)) in cases::<(String, String)>("markdown_becomes_few_elements") {
            assert_eq!(Markup::markdown(&text).to_string(), want, "{name}");
        }
    }
}

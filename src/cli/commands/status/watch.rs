//! A row for each change.

use futures::StreamExt as _;
use kube::api::{WatchEvent, WatchParams};

use super::columns::{HEADERS, cells};
use super::document::{document, row};
use super::{StatusArgs, keep_wanted, list};
use crate::commands::prelude::*;

/// Prints a row for each extension, and another one whenever it changes.
pub(super) async fn watch(client: &Client, args: &StatusArgs, out: &mut dyn Write) -> Ended {
    let api = Api::<ClusterExtension>::all(client.clone());
    let mut told = Told::of(args);
    loop {
        let mut listed = list(client, args).await?;
        let version = listed.metadata.resource_version.unwrap_or_default();
        let there: BTreeSet<_> = listed.items.iter().map(ClusterExtension::name_any).collect();
        told.tell_deleted(|name| !there.contains(name), out)?;
        keep_wanted(client, args, &mut listed.items).await?;
        for extension in &listed.items {
            told.tell(extension, out)?;
        }
        let params =
            WatchParams { label_selector: args.selector.clone(), ..WatchParams::default() };
        let events = api.watch(&params, &version).await;
        let mut events = events.context("watching ClusterExtensions")?.boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(WatchEvent::Added(extension) | WatchEvent::Modified(extension)) => {
                    let mut changed = vec![extension];
                    keep_wanted(client, args, &mut changed).await?;
                    for extension in &changed {
                        told.tell(extension, out)?;
                    }
                }
                Ok(WatchEvent::Deleted(extension)) => {
                    told.tell_deleted(|name| name == extension.name_any(), out)?;
                }
                Ok(WatchEvent::Bookmark(_)) => {}
                // It is listed anew.
                Ok(WatchEvent::Error(_)) | Err(_) => break,
            }
        }
    }
}

/// The rows that were printed, by name, and how wide their columns are.
struct Told {
    output: Format,
    /// Said of an extension that is not there any longer.
    gone: &'static str,
    rows: BTreeMap<String, String>,
    widths: Vec<usize>,
}

impl Told {
    fn of(args: &StatusArgs) -> Self {
        // The API server reports one that loses its label in the same way.
        let is_all = args.selector.is_none();
        let gone = if is_all { "deleted" } else { "deleted, or no longer selected" };
        Self { output: args.output, gone, rows: BTreeMap::new(), widths: Vec::new() }
    }

    /// Prints the row of an extension if it is another one than before; a header before the first,
    /// and again where a column has become wider.
    fn tell(&mut self, extension: &ClusterExtension, out: &mut dyn Write) -> anyhow::Result<()> {
        let one = std::slice::from_ref(extension);
        let cells = cells(&row(extension));
        let row = match self.output {
            Format::Json => serde_json::to_string(&document(one).headed()?)?,
            _ => cells.join("  "),
        };
        let name = extension.name_any();
        if self.rows.get(&name) == Some(&row) {
            return Ok(());
        }
        if self.output == Format::Json {
            writeln!(out, "{row}")?;
        } else {
            self.write(&cells, out)?;
        }
        out.flush()?;
        self.rows.insert(name, row);
        Ok(())
    }

    /// Prints which of the extensions whose rows were printed are gone.
    fn tell_deleted(
        &mut self,
        is_gone: impl Fn(&str) -> bool,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        for (name, _) in self.rows.extract_if(.., |name, _| is_gone(name)) {
            let text = format!("{name}  {}", self.gone);
            // Standard output has documents only.
            match self.output {
                Format::Json => notice(&text),
                _ => writeln!(out, "{text}")?,
            }
        }
        Ok(out.flush()?)
    }

    fn write(&mut self, cells: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
        let headers = HEADERS.map(str::to_owned);
        let begins = self.widths.is_empty();
        self.widths.resize(headers.len(), 0);
        let mut wider = begins;
        for ((width, header), cell) in self.widths.iter_mut().zip(&headers).zip(cells) {
            let needed = cell.chars().count().max(header.len());
            wider |= needed > *width;
            *width = needed.max(*width);
        }
        for line in wider.then_some(&headers[..]).into_iter().chain([cells]) {
            let padded =
                line.iter().zip(&self.widths).map(|(cell, &width)| format!("{cell:width$}"));
            writeln!(out, "{}", padded.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{condition, flags};

    #[test]
    fn rows_stand_under_a_header() {
        let row = |name: &str, reason: &str| -> ClusterExtension {
            let ready = condition("Ready", "False", reason, "");
            let one = json!({"metadata": {"name": name}, "status": {"conditions": [ready]}});
            serde_json::from_value(one).unwrap()
        };
        let args = flags("-l a=b");
        let (mut told, mut out) = (Told::of(&args), Vec::new());
        for (name, reason) in
            [("a", "Blocked"), ("b", "Blocked"), ("b", "Blocked"), ("a", "RollingOut")]
        {
            told.tell(&row(name, reason), &mut out).unwrap();
        }
        // A list after a watch that ended tells once what went in between.
        for _ in 0..2 {
            told.tell_deleted(|name| name != "a", &mut out).unwrap();
        }
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "NAME  NAMESPACE  PACKAGE  VERSION  READY    UPDATE  HELD BY\n\
             a     -          -        -        Blocked  -       -\n\
             b     -          -        -        Blocked  -       -\n\
             NAME  NAMESPACE  PACKAGE  VERSION  READY       UPDATE  HELD BY\n\
             a     -          -        -        RollingOut  -       -\n\
             b  deleted, or no longer selected\n"
        );

        let args = flags("-o json");
        let (mut told, mut out) = (Told::of(&args), Vec::new());
        told.tell(&row("a", "Blocked"), &mut out).unwrap();
        told.tell_deleted(|_| true, &mut out).unwrap();
        assert!(told.rows.is_empty());
        serde_json::from_slice::<Value>(&out).unwrap();
    }
}

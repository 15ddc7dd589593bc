//! The output of a verb that writes: text for people, or with `-o` the objects that were written, and
//! the text beside them on stderr. What nobody reads any more (`| head`) ends no verb half-way.

use std::io::{self, Stderr, Write};

use anyhow::Context as _;
use olm_core::object::Object;
use serde::Serialize;

use super::{Format, Screen, is_broken_pipe, is_quiet, write_json, write_yaml};
use crate::managed::named;

/// The output of a command, for its text and the objects.
pub(crate) struct Written<'a> {
    out: &'a mut dyn Write,
    format: Option<Format>,
    beside: Screen<Stderr>,
    is_first: bool,
}

impl<'a> Written<'a> {
    /// Prints objects in this format, or text without one.
    pub(crate) fn new(out: &'a mut dyn Write, format: Option<Format>) -> Self {
        Self { out, format, beside: Screen(io::stderr()), is_first: true }
    }

    /// Prints an object that was written, if objects are printed.
    pub(crate) fn object(&mut self, object: &impl Serialize) -> anyhow::Result<()> {
        let Some(format) = self.format else { return Ok(()) };
        let object = Object::from_value(serde_json::to_value(object)?);
        let object = object.context("an object of Kubernetes is a JSON object")?;
        match self.print(object, format) {
            Err(error) if is_broken_pipe(&error) => Ok(()),
            printed => printed,
        }
    }

    fn print(&mut self, mut object: Object, format: Format) -> anyhow::Result<()> {
        if format == Format::Name {
            writeln!(self.out, "{}", named(object.kind(), object.group(), object.name()))?;
            return Ok(());
        }
        object.metadata_mut().remove("managedFields");
        if format == Format::Json {
            return write_json(self.out, &object.0);
        }
        if !std::mem::take(&mut self.is_first) {
            writeln!(self.out, "---")?;
        }
        write_yaml(self.out, &object.into_value())
    }
}

impl Write for Written<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self.format {
            None => self.out.write(bytes),
            Some(_) if is_quiet() => Ok(bytes.len()),
            Some(_) => self.beside.write(bytes),
        };
        match written {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    struct Closed;

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[rstest]
    fn a_pipe_that_nobody_reads_ends_no_verb(
        #[values(None, Some(Format::Name), Some(Format::Json), Some(Format::Yaml))] format: Option<
            Format,
        >,
    ) {
        let mut closed = Closed;
        let mut out = Written::new(&mut closed, format);
        writeln!(out, "a deleted").unwrap();
        out.object(&json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "a"}})).unwrap();
    }

    #[rstest]
    #[case::text(None, "lamp: resumed\n")]
    #[case::name(
        Some(Format::Name),
        "clusterextension.olm.operatorframework.io/a\nclusterextension.olm.operatorframework.io/b\n"
    )]
    #[case::yaml(
        Some(Format::Yaml),
        "apiVersion: olm.operatorframework.io/v1\nkind: ClusterExtension\nmetadata:\n  name: a\n---\n\
         apiVersion: olm.operatorframework.io/v1\nkind: ClusterExtension\nmetadata:\n  name: b\n"
    )]
    fn text_or_what_was_written(#[case] format: Option<Format>, #[case] want: &str) {
        let mut out = Vec::new();
        let mut written = Written::new(&mut out, format);
        writeln!(written, "lamp: resumed").unwrap();
        for name in ["a", "b"] {
            let object = json!({"apiVersion": "olm.operatorframework.io/v1",
                "kind": "ClusterExtension", "metadata": {"name": name, "managedFields": []}});
            written.object(&object).unwrap();
        }
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }
}

//! From layers to the wanted files.
//!
//! In: the layers of an image in order, and the directories that are wanted. Out: the regular files
//! below them, with links resolved and whiteouts applied. Nothing from an archive is ever created
//! on the machine: entries go into the virtual tree of `tree`, contents into a spool. This is
//! blocking work; the caller runs it on a thread for that.
//!
//! Source: catalogs.md 5.7, 5.8.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek as _};
use std::sync::atomic::AtomicBool;
use std::thread;

pub use crate::archive::Refusal;
use crate::archive::{Entries, Entry, Kind};
use crate::digest::{Algorithm, Digest, Hasher};
use crate::files::{Files, Span, Spool};
use crate::layer::{LayerError, LayerReader};
use crate::limits::{Limits, MAX_LINK_HOPS};
use crate::shown::shown;
use crate::tree::{Node, Tree};

const HARD_LINK: &str = "hard link target is not a file of the wanted directories";

#[derive(Debug)]
pub struct Layer {
    /// The layer as it was downloaded.
    pub source: File,
    /// Digest of the decompressed bytes, as the image configuration lists it.
    pub diff_id: Option<Digest>,
}

#[derive(Debug)]
pub struct Unpacked {
    /// The files, by their path in the image.
    pub files: Files,
    /// Wanted directories that no layer has.
    pub missing: Vec<String>,
}

/// Why an image was refused. Names are shown in printable form, contents never.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// An entry, the stream of a layer, or a path below a wanted directory was refused; holds where.
    #[error("{0}")]
    At(String, #[source] Refusal),
    /// The kept files, with links counted as copies, are over a limit.
    #[error(transparent)]
    Kept(Refusal),
}

impl UnpackError {
    pub fn is_of_size(&self) -> bool {
        let (Self::At(_, refusal) | Self::Kept(refusal)) = self;
        match refusal {
            Refusal::TooLarge(_) => true,
            Refusal::Read(error) => {
                let limit = error.get_ref().and_then(|cause| cause.downcast_ref::<LayerError>());
                matches!(limit, Some(LayerError::TooLarge(_)))
            }
            Refusal::Refused(_) => false,
        }
    }
}

/// Applies `layers` in order and returns the files below the `wanted` directories, unless `stop` is
/// set meanwhile.
///
/// A wanted directory is a clean path without leading or trailing slashes; the empty path is the
/// whole image. If it is a symbolic link inside the image, its target is read under its name.
pub fn unpack(
    layers: &[Layer],
    wanted: &[String],
    limits: &Limits,
    stop: &AtomicBool,
) -> Result<Unpacked, UnpackError> {
    let mut places = wanted.to_vec();
    loop {
        let first = places == wanted;
        let mut unpacking = Unpacking::new(places, limits);
        for (index, layer) in layers.iter().enumerate() {
            unpacking.layer(index, layer, stop)?;
        }
        let real = unpacking.real_places(wanted)?;
        // Links do not depend on what is wanted, so a second run over the real paths suffices.
        if real == unpacking.places || !first {
            return unpacking.collect(wanted);
        }
        places = real;
    }
}

struct Unpacking<'a> {
    tree: Tree,
    spool: Spool,
    places: Vec<String>,
    limits: &'a Limits,
    entries: u64,
    kept_files: u64,
    decompressed: u64,
}

impl<'a> Unpacking<'a> {
    fn new(places: Vec<String>, limits: &'a Limits) -> Self {
        Self {
            tree: Tree::default(),
            spool: Spool::new(),
            places,
            limits,
            entries: 0,
            kept_files: 0,
            decompressed: 0,
        }
    }

    fn layer(&mut self, index: usize, layer: &Layer, stop: &AtomicBool) -> Result<(), UnpackError> {
        let mut entry = None;
        self.try_layer(index, layer, stop, &mut entry).map_err(|refusal| {
            let entry = entry.map(|name| format!(", entry {}", shown(&name))).unwrap_or_default();
            UnpackError::At(format!("layer {}{entry}", index + 1), refusal)
        })
    }

    fn try_layer(
        &mut self,
        index: usize,
        layer: &Layer,
        stop: &AtomicBool,
        current: &mut Option<String>,
    ) -> Result<(), Refusal> {
        let algorithm = layer.diff_id.as_ref().map(Digest::algorithm);
        let hasher = Hasher::new(algorithm.unwrap_or(Algorithm::Sha256));
        let mut blob = &layer.source;
        blob.rewind()?;
        let (before, limits) = (self.decompressed, self.limits);
        let (got, decompressed) = thread::scope(|scope| {
            let reader = LayerReader::new(scope, blob, hasher, before, limits, stop)?;
            let mut entries = Entries::new(reader);
            while let Some(mut entry) = entries.next()? {
                *current = Some(String::from_utf8_lossy(&entry.name).into_owned());
                self.entry(&mut entry, index)?;
            }
            Ok::<_, Refusal>(entries.into_inner().finish()?)
        })?;
        self.decompressed += decompressed;
        match &layer.diff_id {
            Some(want) if *want != got => Err(Refusal::of(format!(
                "decompressed layer has digest {got}, the image configuration says {want}"
            ))),
            _ => Ok(()),
        }
    }

    fn entry(&mut self, entry: &mut Entry<'_>, layer: usize) -> Result<(), Refusal> {
        self.entries += 1;
        if self.entries > self.limits.entries {
            let text = format!("image has more than {} entries", self.limits.entries);
            return Err(Refusal::TooLarge(text));
        }
        let components = split(&entry.name, self.limits)?;
        let Some((name, parents)) = components.split_last() else {
            // The entry is the root itself.
            return Ok(());
        };
        let parent = self.resolve(&parents.join("/"), true)?;
        if let Some(marker) = name.strip_prefix(".wh.") {
            return self.whiteout(&parent, marker, layer);
        }
        let path = join(&parent, name);
        self.node(entry, &path, layer)?;
        if self.tree.names() > self.limits.names {
            let most = self.limits.names;
            let text = format!("names of the image are longer than {most} bytes together");
            return Err(Refusal::TooLarge(text));
        }
        Ok(())
    }

    fn node(&mut self, entry: &mut Entry<'_>, path: &str, layer: usize) -> Result<(), Refusal> {
        let wanted = self.is_wanted(path);
        match entry.kind {
            Kind::File if wanted => {
                let span = self.keep(entry.size, entry.content)?;
                self.tree.place(path, Node::File(span), layer);
            }
            Kind::HardLink if wanted => {
                let span = self.link_target(&entry.link)?;
                self.count_file()?;
                self.tree.place(path, Node::File(span), layer);
            }
            Kind::SymbolicLink => {
                if entry.link.len() > self.limits.path_bytes {
                    return Err(path_bytes(self.limits));
                }
                let target = String::from_utf8_lossy(&entry.link).into_owned();
                self.tree.place(path, Node::Link(target), layer);
            }
            Kind::Directory if wanted => self.tree.place(path, Node::Directory, layer),
            Kind::Special(kind) if wanted => {
                return Err(Refusal::of(format!("{kind} is not allowed in a wanted directory")));
            }
            Kind::Directory => self.tree.make_way(path, false),
            Kind::File | Kind::HardLink | Kind::Special(_) => self.tree.make_way(path, true),
        }
        Ok(())
    }

    /// Hides what older layers have; the layer's own entries stay, in whatever order they come.
    fn whiteout(&mut self, parent: &str, marker: &str, layer: usize) -> Result<(), Refusal> {
        match marker {
            ".wh..opq" => self.tree.remove_below(parent, layer),
            // Metadata of an old storage driver.
            other if other.starts_with(".wh.") => {}
            "" | "." | ".." => return Err(Refusal::of("whiteout without a name")),
            name => self.tree.whiteout(&join(parent, name), layer),
        }
        Ok(())
    }

    fn keep(&mut self, size: u64, content: &mut dyn Read) -> Result<Span, Refusal> {
        self.count_file()?;
        if size > self.limits.file {
            let text = format!("file is larger than {} bytes", self.limits.file);
            return Err(Refusal::TooLarge(text));
        }
        if size > self.limits.kept.saturating_sub(self.spool.written()) {
            return Err(kept_bytes(self.limits));
        }
        let span = self.spool.append(content)?;
        let whole = (span.len == size).then_some(span);
        whole.ok_or_else(|| Refusal::of("content ends before the size its header says"))
    }

    fn count_file(&mut self) -> Result<(), Refusal> {
        self.kept_files += 1;
        if self.kept_files > self.limits.kept_files {
            return Err(kept_files(self.limits));
        }
        Ok(())
    }

    fn link_target(&self, link: &[u8]) -> Result<Span, Refusal> {
        let target = split(link, self.limits).map_err(|_| Refusal::of(HARD_LINK))?;
        let path = self.resolve(&target.join("/"), false)?;
        match self.tree.get(&path) {
            Some(Node::File(span)) => Ok(*span),
            _ => Err(Refusal::of(HARD_LINK)),
        }
    }

    fn resolve(&self, path: &str, last: bool) -> Result<String, Refusal> {
        let links = || format!("more than {MAX_LINK_HOPS} symbolic links on the way");
        let resolved = self.tree.resolve(path, last).map_err(|_| Refusal::of(links()))?;
        let most = self.limits.steps;
        if self.tree.steps() > most {
            let text = format!("links and whiteouts of the image take more than {most} steps");
            return Err(Refusal::TooLarge(text));
        }
        Ok(resolved)
    }

    fn is_wanted(&self, path: &str) -> bool {
        self.places.iter().any(|place| {
            place.is_empty()
                || path
                    .strip_prefix(place.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    fn real_places(&self, wanted: &[String]) -> Result<Vec<String>, UnpackError> {
        let real = |path: &String| {
            let at = |refusal| UnpackError::At(format!("file {}", shown(path)), refusal);
            self.resolve(path, true).map_err(at)
        };
        wanted.iter().map(real).collect()
    }

    fn collect(self, wanted: &[String]) -> Result<Unpacked, UnpackError> {
        let mut spans = BTreeMap::new();
        let mut missing = Vec::new();
        let mut total: u64 = 0;
        for (name, place) in wanted.iter().zip(&self.places) {
            let before = spans.len();
            for (path, node) in self.tree.leaves(place) {
                let named = rename(path, place, name);
                let at = |refusal| UnpackError::At(format!("file {}", shown(&named)), refusal);
                let span = self.file(path, node).map_err(at)?;
                total = total.saturating_add(span.len);
                spans.insert(named, span);
            }
            if spans.len() == before && self.tree.get(place).is_none() {
                missing.push(name.clone());
            }
        }
        // Readers of the files get links as copies, so they count as copies.
        if total > self.limits.kept {
            return Err(UnpackError::Kept(kept_bytes(self.limits)));
        }
        if spans.len() as u64 > self.limits.kept_files {
            return Err(UnpackError::Kept(kept_files(self.limits)));
        }
        Ok(Unpacked { files: Files::new(spans, self.spool), missing })
    }

    fn file(&self, path: &str, node: &Node) -> Result<Span, Refusal> {
        if let Node::File(span) = node {
            return Ok(*span);
        }
        match self.tree.get(&self.resolve(path, true)?) {
            Some(Node::File(span)) => Ok(*span),
            _ => {
                Err(Refusal::of("symbolic link does not lead to a file of the wanted directories"))
            }
        }
    }
}

/// Splits a name into components: `.`, one leading and one trailing slash are dropped, anything else
/// that is not a plain relative path is refused. kaniko writes an entry `/` and absolute hard links.
fn split<'n>(name: &'n [u8], limits: &Limits) -> Result<Vec<&'n str>, Refusal> {
    if name.contains(&0) {
        return Err(Refusal::of("path has a NUL byte"));
    }
    let name = std::str::from_utf8(name).map_err(|_| Refusal::of("path is not valid UTF-8"))?;
    if name.len() > limits.path_bytes {
        return Err(path_bytes(limits));
    }
    let mut components = Vec::new();
    if name == "/" {
        return Ok(components);
    }
    let name = name.strip_prefix('/').unwrap_or(name);
    for component in name.strip_suffix('/').unwrap_or(name).split('/') {
        match component {
            "" => return Err(Refusal::of("path has an empty component")),
            ".." => return Err(Refusal::of("path leaves its directory with \"..\"")),
            "." => {}
            other => components.push(other),
        }
    }
    if components.len() > limits.path_depth {
        let text = format!("path has more than {} components", limits.path_depth);
        return Err(Refusal::of(text));
    }
    Ok(components)
}

fn path_bytes(limits: &Limits) -> Refusal {
    Refusal::of(format!("path is longer than {} bytes", limits.path_bytes))
}

fn kept_bytes(limits: &Limits) -> Refusal {
    Refusal::TooLarge(format!("wanted files are larger than {} bytes together", limits.kept))
}

fn kept_files(limits: &Limits) -> Refusal {
    Refusal::TooLarge(format!("more than {} files are wanted", limits.kept_files))
}

fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}/{name}") }
}

/// Returns `path`, which is `place` or below it, with `place` replaced by `name`.
fn rename(path: &str, place: &str, name: &str) -> String {
    if place == name {
        return path.to_owned();
    }
    match path[place.len()..].trim_start_matches('/') {
        "" => name.to_owned(),
        rest => join(name, rest),
    }
}

#[cfg(test)]
mod tests;

//! The positions of the blobs of a stored catalog, its origin, and the checksum of its lines.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::sync::Arc;

use jiff::Timestamp;
use jiff::fmt::serde::timestamp::second;
use olm_core::catalog::lint::Tally;
use olm_core::catalog::read::Meta;
use olm_core::catalog::schema;
use serde::{Deserialize, Serialize};

/// Version of the file format; a file of another version is read again from its image.
const FORMAT: u32 = 3;

/// Most blobs of a catalog.
pub const MAX_BLOBS: usize = 1_000_000;
/// Longest `schema`, `package` or `name` of a blob, in bytes: 1 KiB.
pub const MAX_NAME_BYTES: usize = 1 << 10;
/// Most bytes of all different schemas, packages and names of a catalog together: 64 MiB.
pub const MAX_NAMES_BYTES: usize = 64 << 20;
/// Most bytes of the file of an index within these limits: each blob is at most 48 bytes in it, and
/// each byte of a name at most six, besides 64 KiB for the rest. A larger one is not read.
const MAX_FILE_BYTES: u64 = 48 * MAX_BLOBS as u64 + 6 * MAX_NAMES_BYTES as u64 + (64 << 10);

/// Why a catalog cannot be indexed: its index, or one of its packages, would take too much memory.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct IndexError(pub(super) String);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobRef {
    pub offset: u64,
    /// Number of bytes, without the newline.
    pub len: u32,
    schema: u32,
    package: u32,
    name: u32,
}

/// The places of all blobs of a catalog, in catalog order.
///
/// Kept in memory, within limits: 24 bytes a blob, and each different schema, package and name once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlobIndex {
    blobs: Vec<BlobRef>,
    names: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
    /// Of all names.
    name_bytes: usize,
    bytes: u64,
}

/// The query of `/metas`: fields that are not empty must be equal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    pub schema: String,
    pub package: String,
    pub name: String,
}

impl Query {
    /// Returns whether every blob is wanted.
    pub fn is_empty(&self) -> bool {
        self.schema.is_empty() && self.package.is_empty() && self.name.is_empty()
    }
}

impl BlobIndex {
    /// Adds the blob that was written last.
    pub(super) fn push(&mut self, meta: &Meta) -> Result<(), IndexError> {
        let len = u32::try_from(meta.json.len());
        let len = len.map_err(|_| IndexError(format!("blob is longer than {} bytes", u32::MAX)))?;
        let schema = self.number("schema", &meta.schema)?;
        let package = self.number("package", &meta.package)?;
        let name = self.number("name", &meta.name)?;
        self.place(len, [schema, package, name])
    }

    fn place(&mut self, len: u32, [schema, package, name]: [u32; 3]) -> Result<(), IndexError> {
        if self.blobs.len() == MAX_BLOBS {
            return Err(IndexError(format!("catalog has more than {MAX_BLOBS} blobs")));
        }
        self.blobs.push(BlobRef { offset: self.bytes, len, schema, package, name });
        self.bytes += u64::from(len) + 1;
        Ok(())
    }

    pub fn len(&self) -> usize {
        self.blobs.len()
    }

    pub fn is_empty(&self) -> bool {
        self.blobs.is_empty()
    }

    /// Returns the number of bytes of all lines.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the blobs a query asks for, in catalog order.
    pub fn matching(&self, query: &Query) -> Vec<BlobRef> {
        let wanted = |text: &str| (!text.is_empty()).then(|| self.numbers.get(text).copied());
        let (schema, package, name) =
            (wanted(&query.schema), wanted(&query.package), wanted(&query.name));
        let fits = |wanted: Option<Option<u32>>, number| {
            wanted.is_none_or(|wanted| wanted == Some(number))
        };
        self.blobs
            .iter()
            .filter(|blob| {
                fits(schema, blob.schema) && fits(package, blob.package) && fits(name, blob.name)
            })
            .copied()
            .collect()
    }

    /// Returns the packages that blobs belong to, some of them several times.
    pub fn packages(&self) -> impl Iterator<Item = &str> {
        let head = self.numbers.get(schema::PACKAGE).copied();
        let owners = self
            .blobs
            .iter()
            .map(move |blob| if Some(blob.schema) == head { blob.name } else { blob.package });
        let names = owners.filter_map(|number| self.names.get(number as usize));
        names.map(|name| &**name).filter(|name| !name.is_empty())
    }

    /// Returns whether any blob has this name, package or schema.
    pub fn has_name(&self, name: &str) -> bool {
        self.numbers.contains_key(name)
    }

    /// Returns the blobs that belong to a package, in catalog order.
    pub fn of_package(&self, package: &str) -> impl Iterator<Item = BlobRef> {
        let number = self.numbers.get(package).copied();
        let head = self.numbers.get(schema::PACKAGE).copied();
        self.blobs.iter().copied().filter(move |blob| {
            number.is_some_and(|number| {
                blob.package == number || (Some(blob.schema) == head && blob.name == number)
            })
        })
    }

    /// Returns a blob of this index, its text given.
    pub(super) fn meta(&self, blob: &BlobRef, json: String) -> Meta {
        let name = |number: u32| {
            self.names.get(number as usize).map(ToString::to_string).unwrap_or_default()
        };
        Meta { schema: name(blob.schema), package: name(blob.package), name: name(blob.name), json }
    }

    /// Returns the index that was written so; `None` if it was not.
    fn restored(names: &[Cow<'_, str>], blobs: &[[u32; 4]]) -> Option<Self> {
        let mut index = Self::default();
        for name in names {
            index.number("", name).ok()?;
        }
        if index.names.len() != names.len() {
            return None;
        }
        for &[len, schema, package, name] in blobs {
            let known = |number: u32| (number as usize) < names.len();
            if !(known(schema) && known(package) && known(name)) {
                return None;
            }
            index.place(len, [schema, package, name]).ok()?;
        }
        Some(index)
    }

    fn number(&mut self, field: &'static str, name: &str) -> Result<u32, IndexError> {
        if let Some(&number) = self.numbers.get(name) {
            return Ok(number);
        }
        if name.len() > MAX_NAME_BYTES {
            let bytes = name.len();
            return Err(IndexError(format!(
                "{field} of the blob is {bytes} bytes long, more than {MAX_NAME_BYTES}"
            )));
        }
        // Each blob has three at most.
        let number = u32::try_from(self.names.len()).ok();
        let room = self.name_bytes + name.len() <= MAX_NAMES_BYTES;
        let Some(number) = number.filter(|_| room) else {
            return Err(IndexError(format!(
                "different schemas, packages and names of the catalog are longer than \
                 {MAX_NAMES_BYTES} bytes together"
            )));
        };
        let name: Arc<str> = name.into();
        self.name_bytes += name.len();
        self.names.push(Arc::clone(&name));
        self.numbers.insert(name, number);
        Ok(number)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Origin {
    pub catalog: String,
    /// Identity of the catalog object; content of another object of the same name is not used.
    pub uid: String,
    pub reference: String,
    /// When the image was unpacked.
    #[serde(with = "second::required")]
    pub unpacked: Timestamp,
}

#[cfg(test)]
impl Origin {
    /// Returns that of an image which a test names.
    pub(crate) fn example(catalog: &str, digest: &str) -> Self {
        Self {
            catalog: catalog.to_owned(),
            uid: "u".to_owned(),
            reference: format!("example.com/{catalog}@sha256:{digest}"),
            unpacked: Timestamp::from_second(1_700_000_000).unwrap(),
        }
    }
}

/// Cuts a time to whole seconds, which is all that HTTP dates and Kubernetes times hold.
pub fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[derive(Debug)]
pub(super) struct Record {
    pub(super) facts: Facts,
    pub(super) index: BlobIndex,
}

/// What is known of a content besides its blobs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Facts {
    #[serde(flatten)]
    pub(super) origin: Origin,
    #[serde(with = "second::required")]
    pub(super) stored: Timestamp,
    /// CRC-32 of the uncompressed lines.
    pub(super) checksum: u32,
    pub(super) dropped: usize,
    pub(super) findings: Option<Tally>,
}

/// The form of [`Record`] on disk.
#[derive(Serialize, Deserialize)]
struct RecordFile<'a> {
    format: u32,
    #[serde(flatten)]
    facts: Cow<'a, Facts>,
    names: Vec<Cow<'a, str>>,
    /// Per blob: bytes, schema, package, name; the last three are places in `names`.
    blobs: Vec<[u32; 4]>,
}

impl Record {
    pub(super) fn write(&self, to: impl Write) -> io::Result<()> {
        let BlobIndex { names, blobs, .. } = &self.index;
        let places = |blob: &BlobRef| [blob.len, blob.schema, blob.package, blob.name];
        let file = RecordFile {
            format: FORMAT,
            facts: Cow::Borrowed(&self.facts),
            names: names.iter().map(|name| Cow::Borrowed(&**name)).collect(),
            blobs: blobs.iter().map(places).collect(),
        };
        let mut to = io::BufWriter::new(to);
        serde_json::to_writer(&mut to, &file)?;
        to.flush()
    }

    /// Reads what [`Record::write`] has written.
    pub(super) fn read(from: impl Read) -> io::Result<Self> {
        let from = io::BufReader::new(from.take(MAX_FILE_BYTES));
        let file: RecordFile<'_> = serde_json::from_reader(from)?;
        let index = BlobIndex::restored(&file.names, &file.blobs);
        let index = index.filter(|_| file.format == FORMAT).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { facts: file.facts.into_owned(), index })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(package: &str, name: &str) -> Meta {
        let (schema, json) = ("olm.bundle".to_owned(), "{}".to_owned());
        Meta { schema, package: package.to_owned(), name: name.to_owned(), json }
    }

    fn record(index: BlobIndex) -> Record {
        let origin = Origin::example("c", "1");
        let (stored, checksum) = (Timestamp::UNIX_EPOCH, 0);
        Record { facts: Facts { origin, stored, checksum, dropped: 0, findings: None }, index }
    }

    /// Returns what is read back, and in how many bytes it was written.
    fn again(index: &BlobIndex) -> (io::Result<BlobIndex>, usize) {
        let mut bytes = Vec::new();
        record(index.clone()).write(&mut bytes).unwrap();
        (Record::read(bytes.as_slice()).map(|record| record.index), bytes.len())
    }

    // catalogs.md 5.8
    #[test]
    fn a_catalog_has_a_limited_number_of_blobs() {
        let (mut index, blob) = (BlobIndex::default(), meta("p", "b"));
        for _ in 0..MAX_BLOBS {
            index.push(&blob).unwrap();
        }
        let error = index.push(&blob).unwrap_err();
        assert_eq!(error.to_string(), "catalog has more than 1000000 blobs");
        assert_eq!(again(&index).0.unwrap(), index);
        // As a version without limits wrote it.
        index.blobs.push(index.blobs[0]);
        assert_eq!(again(&index).0.unwrap_err().kind(), io::ErrorKind::InvalidData);
    }

    // catalogs.md 5.8
    #[test]
    fn schemas_packages_and_names_have_limited_lengths() {
        let mut index = BlobIndex::default();
        let longest = "~".repeat(MAX_NAME_BYTES);
        index.push(&meta(&longest, &longest)).unwrap();
        let error = index.push(&meta("p", &format!("{longest}~"))).unwrap_err();
        assert_eq!(error.to_string(), "name of the blob is 1025 bytes long, more than 1024");
        let error = index.push(&meta(&format!("{longest}~"), "b")).unwrap_err();
        assert_eq!(error.to_string(), "package of the blob is 1025 bytes long, more than 1024");
    }

    // catalogs.md 5.8
    #[test]
    fn all_names_together_have_a_limit() {
        let mut index = BlobIndex::default();
        let filler = "~".repeat(MAX_NAME_BYTES - 8);
        let error = (0..).find_map(|number| {
            let name = format!("{filler}{number:08}");
            index.push(&meta("p", &name)).err()
        });
        let want = "different schemas, packages and names of the catalog are longer than 67108864 \
                    bytes together";
        assert_eq!(error.unwrap().to_string(), want);
        // What is there already takes nothing.
        index.push(&meta("p", "p")).unwrap();
    }

    #[test]
    fn the_file_of_an_index_has_at_most_as_many_bytes_as_are_read() {
        let mut index = BlobIndex::default();
        // Each byte of such a name is six bytes of the file.
        index.push(&meta("p", &"\u{1}".repeat(MAX_NAME_BYTES))).unwrap();
        let (read, one) = again(&index);
        assert_eq!(read.unwrap(), index);
        assert!(one > 6 * MAX_NAME_BYTES && one < 6 * MAX_NAME_BYTES + 1024);
        // The places of a blob have ten digits at most.
        assert!(format!("[{0},{0},{0},{0}],", u32::MAX).len() <= 48);
    }
}

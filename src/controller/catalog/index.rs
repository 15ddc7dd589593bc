//! Where each blob of a stored catalog stands, and what vouches for the files beside it.

use std::collections::HashMap;
use std::io;

use jiff::Timestamp;
use olm_core::catalog::lint::Tally;
use olm_core::catalog::read::Meta;
use olm_core::catalog::schema;
use serde::{Deserialize, Serialize};

use super::store::Origin;

/// Version of the file format; a file of another version is read again from its image.
const FORMAT: u32 = 2;

/// Place of one blob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlobRef {
    /// First byte.
    pub offset: u64,
    /// Number of bytes, without the newline.
    pub len: u32,
    schema: u32,
    package: u32,
    name: u32,
}

/// The places of all blobs of a catalog, in catalog order.
///
/// Kept in memory: about 20 bytes a blob, and each different schema, package and name once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlobIndex {
    blobs: Vec<BlobRef>,
    names: Vec<String>,
    numbers: HashMap<String, u32>,
    bytes: u64,
}

/// What `/metas` asks for: fields that are not empty must be equal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    /// Wanted `schema`.
    pub schema: String,
    /// Wanted `package`.
    pub package: String,
    /// Wanted `name`.
    pub name: String,
}

impl Query {
    /// Says whether every blob is wanted.
    pub fn is_empty(&self) -> bool {
        self.schema.is_empty() && self.package.is_empty() && self.name.is_empty()
    }
}

impl BlobIndex {
    /// Adds the blob that was written last.
    pub(super) fn push(&mut self, meta: &Meta) -> io::Result<()> {
        let len = u32::try_from(meta.json.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        let blob = BlobRef {
            offset: self.bytes,
            len,
            schema: self.number(&meta.schema)?,
            package: self.number(&meta.package)?,
            name: self.number(&meta.name)?,
        };
        self.blobs.push(blob);
        self.bytes += u64::from(len) + 1;
        Ok(())
    }

    /// Returns how many blobs there are.
    pub fn len(&self) -> usize {
        self.blobs.len()
    }

    /// Says whether there is no blob.
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
        names.map(String::as_str).filter(|name| !name.is_empty())
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
        let name = |number: u32| self.names.get(number as usize).cloned().unwrap_or_default();
        Meta { schema: name(blob.schema), package: name(blob.package), name: name(blob.name), json }
    }

    fn number(&mut self, name: &str) -> io::Result<u32> {
        if let Some(&number) = self.numbers.get(name) {
            return Ok(number);
        }
        let number = u32::try_from(self.names.len()).map_err(|_| io::ErrorKind::FileTooLarge)?;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        Ok(number)
    }
}

/// Everything known about stored content besides its lines.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) origin: Origin,
    pub(super) stored: Timestamp,
    /// Of the uncompressed lines, in hexadecimal.
    pub(super) sha256: String,
    pub(super) dropped: usize,
    /// What is wrong with it, if it was examined.
    pub(super) findings: Option<Tally>,
    pub(super) index: BlobIndex,
}

/// The form of [`Record`] on disk.
#[derive(Serialize, Deserialize)]
struct RecordFile {
    format: u32,
    catalog: String,
    uid: String,
    reference: String,
    unpacked: i64,
    stored: i64,
    sha256: String,
    dropped: usize,
    findings: Option<Tally>,
    names: Vec<String>,
    /// Per blob: bytes, schema, package, name; the last three are places in `names`.
    blobs: Vec<[u32; 4]>,
}

impl Record {
    pub(super) fn to_json(&self) -> io::Result<Vec<u8>> {
        let file = RecordFile {
            format: FORMAT,
            catalog: self.origin.catalog.clone(),
            uid: self.origin.uid.clone(),
            reference: self.origin.reference.clone(),
            unpacked: self.origin.unpacked.as_second(),
            stored: self.stored.as_second(),
            sha256: self.sha256.clone(),
            dropped: self.dropped,
            findings: self.findings.clone(),
            names: self.index.names.clone(),
            blobs: self
                .index
                .blobs
                .iter()
                .map(|blob| [blob.len, blob.schema, blob.package, blob.name])
                .collect(),
        };
        Ok(serde_json::to_vec(&file)?)
    }

    pub(super) fn parse(bytes: &[u8]) -> io::Result<Self> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let file: RecordFile = serde_json::from_slice(bytes)?;
        let time = |seconds| Timestamp::from_second(seconds).map_err(|_| invalid());
        if file.format != FORMAT {
            return Err(invalid());
        }
        let mut index = BlobIndex::default();
        for &[len, schema, package, name] in &file.blobs {
            let known = |number: u32| (number as usize) < file.names.len();
            if !(known(schema) && known(package) && known(name)) {
                return Err(invalid());
            }
            index.blobs.push(BlobRef { offset: index.bytes, len, schema, package, name });
            index.bytes += u64::from(len) + 1;
        }
        index.numbers = (0..).zip(&file.names).map(|(n, name)| (name.clone(), n)).collect();
        index.names = file.names;
        Ok(Self {
            origin: Origin {
                catalog: file.catalog,
                uid: file.uid,
                reference: file.reference,
                unpacked: time(file.unpacked)?,
            },
            stored: time(file.stored)?,
            sha256: file.sha256,
            dropped: file.dropped,
            findings: file.findings,
            index,
        })
    }
}

//! A row of labelled text, and JSON Lines files of them, plain or gzipped.
//!
//! Files may come from anywhere: what is read is bounded, and every error names the file and the line.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use custody_models::sha256::Sha256;
use flate2::bufread::MultiGzDecoder;
use serde_json::{Map, Value};

use super::error::DataError;
use crate::report::DataFile;

/// How much is read.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Of a file, packed and unpacked.
    bytes: u64,
    /// Of a line.
    line: u64,
}

/// 512 MiB; lines of 64 MiB, so that a text of 10 MB passes however it is escaped.
const LIMITS: Limits = Limits { bytes: 512 << 20, line: 64 << 20 };

/// One row of a data set.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Its id; the number of its line if it has none.
    pub id: String,
    /// The text.
    pub text: String,
    /// 1 for an injection, 0 for ordinary text, none when the notion does not apply.
    pub label: Option<u8>,
    /// Its other fields.
    pub fields: BTreeMap<String, Value>,
}

impl Row {
    /// The field `name`, if it is a text: `lang`, `category`, `license`, `source`, `part`,
    /// `attacker_instruction` and others, per data set.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name)?.as_str()
    }
}

/// The rows of a file, in its order, and what the file is.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSet {
    /// At least one.
    pub rows: Vec<Row>,
    /// Under the path that it was read from.
    pub file: DataFile,
}

/// Reads JSON Lines from `path`: one object per line with a `text` and, if it has them, `id` and `label`.
/// Bytes that begin as gzip are unpacked. Empty lines are passed over.
///
/// # Errors
/// [`DataError`], with the file and the line: it cannot be read, is empty, is cut off, is too long, or a
/// line is not UTF-8, no JSON object, without a text, or labelled other than 0, 1 or null.
pub fn read_rows(path: &Path) -> Result<DataSet, DataError> {
    let bytes = read_file(path)?;
    let rows = if bytes.starts_with(&[0x1f, 0x8b]) {
        rows_of(path, MultiGzDecoder::new(&bytes[..]), LIMITS)
    } else {
        rows_of(path, &bytes[..], LIMITS)
    }?;
    let file = DataFile {
        file: path.display().to_string(),
        sha256: Sha256::of(&bytes).to_string(),
        rows: rows.len() as u64,
    };
    Ok(DataSet { rows, file })
}

/// All bytes of a file of bearable length.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, DataError> {
    let file = File::open(path).map_err(DataError::read(path))?;
    let mut bytes = Vec::new();
    file.take(LIMITS.bytes + 1).read_to_end(&mut bytes).map_err(DataError::read(path))?;
    if bytes.len() as u64 > LIMITS.bytes {
        return Err(DataError::file(
            path,
            format!("is longer than {} bytes; split it", LIMITS.bytes),
        ));
    }
    Ok(bytes)
}

fn rows_of(path: &Path, from: impl Read, limits: Limits) -> Result<Vec<Row>, DataError> {
    let mut reader = BufReader::new(from.take(limits.bytes + 1));
    let (mut rows, mut line, mut number, mut unpacked) = (Vec::new(), Vec::new(), 0, 0);
    loop {
        line.clear();
        number += 1;
        let fail = |why: String| DataError::Line { path: path.into(), line: number, why };
        let length = (&mut reader)
            .take(limits.line + 1)
            .read_until(b'\n', &mut line)
            .map_err(|cause| fail(unreadable(&cause)))?;
        if length == 0 {
            break;
        }
        unpacked += length as u64;
        if length as u64 > limits.line {
            return Err(fail(format!("is longer than {} bytes", limits.line)));
        }
        if unpacked > limits.bytes {
            return Err(fail(format!("the file unpacks to more than {} bytes", limits.bytes)));
        }
        if !line.trim_ascii().is_empty() {
            rows.push(row(&line, number).map_err(fail)?);
        }
    }
    if rows.is_empty() {
        return Err(DataError::file(path, "holds no rows; give JSON Lines with a `text` each"));
    }
    Ok(rows)
}

fn unreadable(cause: &io::Error) -> String {
    if cause.kind() == io::ErrorKind::UnexpectedEof {
        "the gzip file is cut off here; copy it again".to_owned()
    } else {
        format!("cannot be read ({cause})")
    }
}

fn row(line: &[u8], number: u64) -> Result<Row, String> {
    let text = std::str::from_utf8(line)
        .map_err(|error| format!("is not UTF-8 at byte {} of the line", error.valid_up_to()))?;
    let mut fields: Map<String, Value> = serde_json::from_str(text)
        .map_err(|cause| format!("is no JSON object with numbers as JSON has them ({cause})"))?;
    let label = match fields.remove("label") {
        None | Some(Value::Null) => None,
        Some(label) => Some(match label.as_u64() {
            Some(0) => 0,
            Some(1) => 1,
            Some(_) | None => {
                return Err(format!("the label is `{}`, not 0, 1 or null", cut(&label)));
            }
        }),
    };
    let text = match fields.remove("text") {
        Some(Value::String(text)) => text,
        Some(_) => return Err("`text` is not a text".to_owned()),
        None => return Err("has no `text`".to_owned()),
    };
    let id = match fields.remove("id") {
        Some(Value::String(id)) => id,
        Some(Value::Number(id)) => id.to_string(),
        None => format!("line {number}"),
        Some(_) => return Err("`id` is neither text nor number".to_owned()),
    };
    Ok(Row { id, text, label, fields: fields.into_iter().collect() })
}

/// A value, short enough for a message.
fn cut(value: &Value) -> String {
    value.to_string().chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_unpacks_without_end_and_a_line_without_end_are_refused() {
        let limits = Limits { bytes: 100, line: 20 };
        let said = |from: &mut dyn Read| match rows_of(Path::new("f"), from, limits) {
            Ok(rows) => format!("{} rows", rows.len()),
            Err(error) => error.to_string(),
        };
        let row = b"{\"text\": \"x\"}\n";
        assert_eq!(said(&mut &row.repeat(7)[..]), "7 rows");
        assert_eq!(
            said(&mut &row.repeat(8)[..]),
            "`f` line 8: the file unpacks to more than 100 bytes"
        );
        let endless = "`f` line 101: the file unpacks to more than 100 bytes";
        assert_eq!(said(&mut io::repeat(b'\n')), endless);
        assert_eq!(said(&mut io::repeat(b' ')), "`f` line 1: is longer than 20 bytes");
    }
}

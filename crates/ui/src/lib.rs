//! The files of the dashboard, embedded in the binary.
//!
//! `cargo xtask ui` builds them from `dashboard/` with Node. A build without them works: [`is_built`] is false, and every
//! page is [`MISSING`], which says how to get the dashboard.
//!
//! ```
//! let page = slipform_ui::page("runs");
//! assert_eq!(page.content_type, "text/html; charset=utf-8");
//! ```
//!
//! Not in this crate: HTTP (`slipform-coordinator`), and the source of the dashboard (`dashboard/`).

/// The page that a binary without the dashboard shows.
pub const MISSING: &str = include_str!("missing.html");

/// A file of the dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asset {
    /// The media type.
    pub content_type: &'static str,
    /// The entity tag, in quotes.
    pub etag: &'static str,
    /// The content.
    pub bytes: &'static [u8],
    /// The content compressed with gzip; `None` if that is not smaller.
    pub gzip: Option<&'static [u8]>,
    /// Whether the name contains a hash of the content, so that the content of a name never changes.
    pub is_immutable: bool,
}

/// An embedded file.
struct File {
    name: &'static str,
    etag: &'static str,
    bytes: &'static [u8],
    gzip: Option<&'static [u8]>,
}

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The file with the dashboard's page.
const INDEX: &str = "index.html";

/// The folder of files whose names contain a hash of their content.
const HASHED: &str = "assets/";

/// Returns whether the dashboard is in this binary.
pub fn is_built() -> bool {
    find(INDEX).is_some()
}

/// Returns the file at a path below `/ui/`, or the page that shows the route of this name. `None` for files that do not
/// exist.
pub fn asset(path: &str) -> Option<Asset> {
    let is_file = path.rsplit('/').next().is_some_and(|name| name.contains('.')) && path != INDEX;
    match find(path) {
        Some(file) => Some(of_file(file)),
        // Names of agents and schemas may contain dots; files are only in a folder of their own or at the root.
        None if is_file && (path.starts_with(HASHED) || !path.contains('/')) => None,
        None => Some(page(path)),
    }
}

/// Returns the page of a route.
pub fn page(_route: &str) -> Asset {
    find(INDEX).map_or(
        Asset {
            content_type: "text/html; charset=utf-8",
            etag: "\"missing\"",
            bytes: MISSING.as_bytes(),
            gzip: None,
            is_immutable: false,
        },
        of_file,
    )
}

fn find(name: &str) -> Option<&'static File> {
    FILES.iter().find(|file| file.name == name)
}

fn of_file(file: &File) -> Asset {
    Asset {
        content_type: content_type(file.name),
        etag: file.etag,
        bytes: file.bytes,
        gzip: file.gzip.filter(|gzip| gzip.len() < file.bytes.len()),
        is_immutable: file.name.starts_with(HASHED),
    }
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "json" | "webmanifest" => "application/json",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_show_the_page_and_unknown_files_do_not_exist() {
        let page = page("");
        for route in ["", "runs", "sessions/ses_0123456789ab/attempts", "schemas/order.v2"] {
            assert_eq!(asset(route), Some(page), "{route}");
        }
        for file in ["assets/unknown.js", "robots.txt", "index.js"] {
            assert_eq!(asset(file), None, "{file}");
        }
        assert_eq!(is_built(), page.bytes != MISSING.as_bytes());
    }

    #[test]
    fn content_type_follows_the_extension() {
        assert_eq!(content_type("assets/index-a1.js"), "text/javascript; charset=utf-8");
        assert_eq!(content_type("assets/index-a1.css"), "text/css; charset=utf-8");
        assert_eq!(content_type("other"), "application/octet-stream");
    }
}

//! The files that a browser loads: plain modules, inside of the program.
//!
//! A debug build reads them from `web/` at each request, so that a changed page needs no build.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use std::borrow::Cow;

macro_rules! files {
    ($($name:literal: $path:literal,)*) => {
        /// Names of all files, their places in `web/`, and their texts.
        const FILES: &[(&str, &str, &str)] =
            &[$(($name, $path, include_str!(concat!("../web/", $path)))),*];
    };
}

files! {
    "index.html": "index.html",
    "style.css": "style.css",
    "activity.js": "activity.js",
    "advice.js": "advice.js",
    "app.js": "app.js",
    "cluster.js": "cluster.js",
    "decisions.js": "decisions.js",
    "design.js": "design.js",
    "graph.js": "graph.js",
    "heat.js": "heat.js",
    "history.js": "history.js",
    "jobs.js": "jobs.js",
    "metrics.js": "metrics.js",
    "overview.js": "overview.js",
    "statements.js": "statements.js",
    "ui.js": "ui.js",
    "uplot.js": "vendor/uPlot.iife.min.js",
    "uplot.css": "vendor/uPlot.min.css",
}

/// A file of the pages.
pub(crate) struct File {
    kind: &'static str,
    text: Cow<'static, str>,
}

/// The file of this name; `None` if there is none.
pub(crate) fn file(name: &str) -> Option<File> {
    let text = match read(name) {
        Some(text) => Cow::Owned(text),
        None => Cow::Borrowed(FILES.iter().find(|(known, ..)| *known == name)?.2),
    };
    let kind = match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        _ => "text/css; charset=utf-8",
    };
    Some(File { kind, text })
}

/// The text that the folder has now, in a debug build.
fn read(name: &str) -> Option<String> {
    if !cfg!(debug_assertions) {
        return None;
    }
    let path = FILES.iter().find(|(known, ..)| *known == name).map_or(name, |(_, path, _)| path);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '/');
    let is_inside = path.chars().all(is_plain) && !path.contains("..") && !path.starts_with('/');
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/web");
    is_inside.then(|| std::fs::read_to_string(format!("{folder}/{path}")).ok()).flatten()
}

impl IntoResponse for File {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, self.kind)], self.text).into_response()
    }
}

/// A file, or 404.
pub(crate) fn answer(name: &str) -> Response {
    match file(name) {
        Some(file) => file.into_response(),
        None => (StatusCode::NOT_FOUND, "there is no such file\n").into_response(),
    }
}

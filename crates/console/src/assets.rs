//! Style, scripts and the icon, which are part of the binary.

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

pub(crate) async fn show(Path(name): Path<String>) -> Response {
    let (content_type, text) = match name.as_str() {
        "console.css" => (CSS, include_str!("../assets/console.css")),
        "console.js" => (JAVASCRIPT, include_str!("../assets/console.js")),
        "follow.js" => (JAVASCRIPT, include_str!("../assets/follow.js")),
        "theme.js" => (JAVASCRIPT, include_str!("../assets/theme.js")),
        "uPlot.iife.min.js" => (JAVASCRIPT, include_str!("../assets/uPlot.iife.min.js")),
        "uPlot.min.css" => (CSS, include_str!("../assets/uPlot.min.css")),
        "icon.svg" => ("image/svg+xml", include_str!("../assets/icon.svg")),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    // Short, since they change with the binary and their names do not.
    ([(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, "max-age=60")], text).into_response()
}

//! Media types of the client's files, by file extension or audio format.

/// The media type for a URL's file extension.
pub(super) fn by_extension(url: &str) -> Option<&'static str> {
    let path = url.split(['?', '#']).next()?;
    let (_, extension) = path.rsplit('/').next()?.rsplit_once('.')?;
    let kind = match extension.to_ascii_lowercase().as_str() {
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "gif" => "image/gif",
        "heic" => "image/heic",
        "heif" => "image/heif",
        "bmp" => "image/bmp",
        "tif" | "tiff" => "image/tiff",
        "pdf" => "application/pdf",
        "txt" | "md" | "log" => "text/plain",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "csv" => "text/csv",
        "xml" => "text/xml",
        "rtf" => "text/rtf",
        "json" => "application/json",
        "mp3" => "audio/mpeg",
        "wav" => "audio/wav",
        "aiff" | "aif" => "audio/aiff",
        "aac" => "audio/aac",
        "ogg" | "opus" => "audio/ogg",
        "flac" => "audio/flac",
        "m4a" => "audio/mp4",
        "mp4" => "video/mp4",
        "mov" => "video/quicktime",
        "mpeg" | "mpg" => "video/mpeg",
        "webm" => "video/webm",
        "avi" => "video/x-msvideo",
        "wmv" => "video/x-ms-wmv",
        "flv" => "video/x-flv",
        "3gp" => "video/3gpp",
        "mkv" => "video/x-matroska",
        _ => return None,
    };
    Some(kind)
}

/// The media type for OpenAI's audio formats.
pub(super) fn audio_media_type(format: &str) -> String {
    match format {
        "mp3" => "audio/mpeg".to_owned(),
        "pcm16" => "audio/pcm".to_owned(),
        "m4a" => "audio/mp4".to_owned(),
        full if full.contains('/') => full.to_owned(),
        other => format!("audio/{other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_is_the_paths() {
        assert_eq!(by_extension("https://h.pdf/a/b.PNG?x=.gif#y.mp4"), Some("image/png"));
        assert_eq!(by_extension("gs://bucket/film.mp4"), Some("video/mp4"));
        for none in ["https://h.pdf/a", "https://h/", "", "a", "https://youtu.be/x"] {
            assert_eq!(by_extension(none), None, "{none}");
        }
    }
}

//! Documents of servers that answer as a test has them do, and in files.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use super::*;

#[test]
fn urls_by_table() {
    for (url, place) in [
        ("https://issuer/keys", Ok(Place::Https)),
        ("https://issuer:8443/realms/a/keys?x=y", Ok(Place::Https)),
        ("http://localhost:8080/keys", Ok(Place::Http)),
        ("http://127.0.0.1:8080/keys", Ok(Place::Http)),
        ("http://[::1]:8080/keys", Ok(Place::Http)),
        ("http://issuer/keys", Err(UrlError::Insecure)),
        ("http://127.0.0.1.example.com/keys", Err(UrlError::Insecure)),
        ("https://me:secret@issuer/keys", Err(UrlError::User)),
        ("http://localhost@issuer/keys", Err(UrlError::User)),
        ("ftp://issuer/keys", Err(UrlError::Malformed)),
        ("issuer/keys", Err(UrlError::Malformed)),
        ("https:///keys", Err(UrlError::Malformed)),
        ("", Err(UrlError::Malformed)),
        ("file:///etc/keys.json", Ok(Place::File("/etc/keys.json".to_owned()))),
        ("file:/etc/keys.json", Ok(Place::File("/etc/keys.json".to_owned()))),
        ("file://host/keys.json", Err(UrlError::Malformed)),
        ("file:keys.json", Err(UrlError::Malformed)),
        ("file:///a%20b", Err(UrlError::Malformed)),
    ] {
        assert_eq!(Place::of(url), place, "{url}");
    }
}

/// What comes of an answer with this beginning and body, and what was asked.
fn answered(head: &str, body: Vec<u8>, is_form: bool) -> (Result<Document, DocumentError>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    let head = format!("HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n", body.len());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let (mut request, mut part) = (String::new(), [0; 4096]);
        // A body may come after its head.
        while !request.contains("\r\n\r\n") || request.starts_with("POST") && request.ends_with("\r\n\r\n") {
            let read = stream.read(&mut part).unwrap();
            request.push_str(str::from_utf8(&part[..read]).unwrap());
        }
        stream.write_all(head.as_bytes()).unwrap();
        // Whoever has read enough hangs up.
        _ = stream.write_all(&body);
        request
    });
    let source = DocumentSource::new(&url, None).unwrap();
    let document = if is_form { source.post("Basic x", "a=b", 1000) } else { source.read(1000) };
    (document, server.join().unwrap())
}

#[test]
fn an_answer_has_a_status_and_a_size() {
    let (document, request) = answered("200 OK", b"keys".into(), false);
    assert!(request.starts_with("GET /keys HTTP/1.1\r\n"), "{request}");
    assert_eq!(document.unwrap().bytes, b"keys");
    let (document, request) = answered("401 Unauthorized", b"no".into(), true);
    assert!(request.starts_with("POST /keys HTTP/1.1\r\n") && request.ends_with("\r\n\r\na=b"), "{request}");
    assert!(request.contains("authorization: Basic x\r\n"), "{request}");
    let Document { status, bytes } = document.unwrap();
    assert_eq!((status, &bytes[..]), (401, &b"no"[..]));
    let elsewhere = "302 Found\r\nLocation: http://127.0.0.1:1/";
    assert_eq!(answered(elsewhere, Vec::new(), true).0.unwrap().status, 302, "nobody goes there");
    assert!(answered("200 OK", vec![b' '; 1000], false).0.is_ok());
    let (large, _) = answered("200 OK", vec![b' '; 1001], false);
    assert!(matches!(large, Err(DocumentError::TooLarge(1000))));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a file of the test's own")]
fn a_file_has_a_size() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("document");
    let read = || DocumentSource::new(&format!("file://{}", path.display()), None).unwrap().read(10);
    assert!(matches!(read(), Err(DocumentError::File(_))));
    let write = |size| std::fs::write(&path, vec![b'x'; size]).unwrap();
    write(10);
    assert_eq!(read().unwrap().bytes.len(), 10);
    write(11);
    assert!(matches!(read(), Err(DocumentError::TooLarge(10))));
}

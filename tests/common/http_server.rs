//! A server that gives the answers of a test, to those who give the name and the password `me:open sesame`.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value;

/// What is answered to the first line of a request, as `GET /subjects`, and its body: JSON, or a text as it is.
pub type Answering = fn(&str, &Value) -> (u16, Value);

/// It keeps what it was sent to change something.
pub struct HttpServer {
    pub address: String,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
}

impl HttpServer {
    pub fn start(answering: Answering) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::<Mutex<Vec<_>>>::default();
        let kept = Arc::clone(&requests);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (line, body) = read(&mut stream);
                let (status, answer) = answering(&line, &body);
                if !line.starts_with("GET") {
                    kept.lock().unwrap().push((line, body));
                }
                let answer = answer.as_str().map_or_else(|| answer.to_string(), str::to_owned);
                let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n", answer.len());
                let _ = stream.write_all(format!("{head}Connection: close\r\n\r\n{answer}").as_bytes());
            }
        });
        Self { address, requests }
    }

    pub fn url(&self) -> String {
        format!("http://me:open%20sesame@{}", self.address)
    }

    /// What was sent to change something, since the last time.
    pub fn requests(&self) -> Vec<(String, Value)> {
        std::mem::take(&mut self.requests.lock().unwrap())
    }
}

fn read(stream: &mut TcpStream) -> (String, Value) {
    let mut request = Vec::new();
    let mut part = [0; 8192];
    loop {
        let read = stream.read(&mut part).unwrap();
        request.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        assert!(head.contains("Basic bWU6b3BlbiBzZXNhbWU="), "{head}");
        let length = head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
        if read == 0 || body.len() >= length.unwrap_or(0) {
            let line = head.split(" HTTP/1.1").next().unwrap().to_owned();
            return (line, serde_json::from_str(body).unwrap_or(Value::Null));
        }
    }
}

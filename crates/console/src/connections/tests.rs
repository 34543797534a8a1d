//! Deadlines, on a paused clock and streams in memory; places, on sockets.

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_rustls::rustls::pki_types::{PrivatePkcs8KeyDer, ServerName};
use tokio_rustls::{TlsConnector, rustls};

use super::*;
use crate::{Console, Options, Password, router};

fn routes(password: Option<&str>) -> TowerToHyperService<Router> {
    let options = Options { password: password.map(Password::new), ..Options::default() };
    TowerToHyperService::new(router::routes(Console::new(options, None, None)))
}

/// A connection of a peer that has so much room for what it does not read.
async fn connect(routes: &TowerToHyperService<Router>, peer: [u8; 4], buffer_bytes: usize) -> DuplexStream {
    let (client, server) = duplex(buffer_bytes);
    let place = Places::default().take().await;
    tokio::spawn(answer(server, None, (peer, 1).into(), place, routes.clone()));
    client
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

fn log_in(password: &str, claimed_bytes: usize) -> Vec<u8> {
    let form = "Content-Type: application/x-www-form-urlencoded";
    let head = format!("POST /login HTTP/1.1\r\nHost: localhost\r\n{form}\r\nContent-Length: {claimed_bytes}\r\n\r\n");
    format!("{head}password={password}").into_bytes()
}

fn attempt(password: &str) -> Vec<u8> {
    log_in(password, "password=".len() + password.len())
}

/// The status of the next answer, or nothing if the connection ends before it.
async fn status(stream: &mut (impl AsyncRead + Unpin)) -> Option<u16> {
    let mut line = [0; 12];
    stream.read_exact(&mut line).await.ok()?;
    std::str::from_utf8(&line).ok()?.strip_prefix("HTTP/1.1 ")?.parse().ok()
}

async fn is_closed(stream: &mut (impl AsyncRead + Unpin)) -> bool {
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_head_has_to_come_in_time_at_first_and_after_an_answer() {
    let routes = routes(None);
    for sent in [&b""[..], b"GET /login HTT", &get("/health/live")] {
        let began = Instant::now();
        let mut stream = connect(&routes, [127, 0, 0, 1], 4096).await;
        stream.write_all(sent).await.unwrap();
        assert!(is_closed(&mut stream).await);
        let took = began.elapsed();
        assert!((HEAD_TIMEOUT..HEAD_TIMEOUT + Duration::from_secs(1)).contains(&took), "{sent:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_that_comes_slowly_ends_too() {
    let began = Instant::now();
    let mut stream = connect(&routes(None), [127, 0, 0, 1], 4096).await;
    while stream.write_all(b"X").await.is_ok() {
        sleep(Duration::from_secs(1)).await;
    }
    assert!(began.elapsed() <= HEAD_TIMEOUT + Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_head_is_bounded() {
    let mut stream = connect(&routes(None), [127, 0, 0, 1], 1 << 20).await;
    // What is whole when it is read is taken, up to twice the bound.
    let long = "x".repeat(4 * HEAD_BYTES_MAX);
    let request = format!("GET /login HTTP/1.1\r\nHost: localhost\r\nCookie: {long}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(status(&mut stream).await, Some(431));
}

#[tokio::test(start_paused = true)]
async fn an_answer_has_to_be_taken() {
    let began = Instant::now();
    // The page of the login is larger than what there is room for.
    let stream = connect(&routes(Some("right")), [127, 0, 0, 1], 16).await;
    let (mut reader, mut writer) = tokio::io::split(stream);
    writer.write_all(&get("/login")).await.unwrap();
    // It is gone without having been read: what is left of it can be read, and is not all of it.
    while writer.write_all(b"X").await.is_ok() {
        sleep(Duration::from_secs(1)).await;
    }
    assert!(began.elapsed() <= WRITE_TIMEOUT + Duration::from_secs(2), "{:?}", began.elapsed());
    let mut rest = Vec::new();
    reader.read_to_end(&mut rest).await.unwrap();
    assert!(rest.len() <= 16, "{}", rest.len());
}

#[tokio::test(start_paused = true)]
async fn a_body_has_to_come_in_time_and_is_bounded() {
    let routes = routes(Some("right"));
    let began = Instant::now();
    let mut stream = connect(&routes, [127, 0, 0, 1], 4096).await;
    stream.write_all(&log_in("half", 1000)).await.unwrap();
    assert_eq!(status(&mut stream).await, Some(408));
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    // Before the login nobody needs much.
    let mut stream = connect(&routes, [127, 0, 0, 1], 1 << 20).await;
    stream.write_all(&attempt(&"x".repeat(100_000))).await.unwrap();
    assert_eq!(status(&mut stream).await, Some(413));
}

#[tokio::test(start_paused = true)]
async fn a_wrong_password_delays_its_own_address_only() {
    let routes = routes(Some("right"));
    let began = Instant::now();
    let mut guessing = Vec::new();
    for _ in 0..60 {
        let mut stream = connect(&routes, [10, 0, 0, 1], 4096).await;
        stream.write_all(&attempt("wrong")).await.unwrap();
        guessing.push(tokio::spawn(async move { status(&mut stream).await }));
    }
    tokio::task::yield_now().await;
    for right in [attempt("right"), attempt("right")] {
        let mut stream = connect(&routes, [10, 0, 0, 2], 4096).await;
        stream.write_all(&right).await.unwrap();
        assert_eq!(status(&mut stream).await, Some(303));
    }
    assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
    // Those that wait for their turn are bounded; the rest is told to come back.
    let mut answers = Vec::new();
    for guess in guessing {
        answers.push(guess.await.unwrap());
    }
    let count = |status: u16| answers.iter().filter(|answer| **answer == Some(status)).count();
    assert!(count(403) >= 1 && count(429) >= 40 && count(403) + count(429) == 60, "{answers:?}");
}

/// However many hold the places of the reserve without asking: those who watch are answered, and nobody else is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_and_metrics_keep_places_in_a_flood() {
    const PATIENCE: Duration = Duration::from_secs(60);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let places = Places::default();
    let ordinary = Arc::clone(&places.ordinary);
    let all_taken = ordinary.acquire_many(CONNECTIONS_MAX as u32).await.unwrap();
    tokio::spawn(serve_at(listener, None, routes(None), places.clone()));
    let ask = async |bytes: &[u8]| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        stream
    };
    let answered = async |path: &str| {
        let mut stream = ask(&get(path)).await;
        (timeout(PATIENCE, status(&mut stream)).await.expect("it is answered"), stream)
    };
    let mut flood = Vec::new();
    for _ in 0..4 {
        for _ in 0..3 * RESERVE_MAX {
            flood.push(ask(b"GET /metrics HTT").await);
        }
        assert_eq!(answered("/health/live").await.0, Some(200));
        assert_eq!(answered("/health/ready").await.0, Some(200));
        // There is no broker in this process.
        assert_eq!(answered("/metrics").await.0, Some(404));
        assert_eq!(answered("/").await.0, Some(503));
    }
    // A place of the reserve is for one request.
    let (status, mut stream) = answered("/health/live").await;
    assert_eq!(status, Some(200));
    assert!(timeout(PATIENCE, is_closed(&mut stream)).await.expect("it is closed"));
    // With room for everybody there are pages again.
    drop(all_taken);
    assert_eq!(answered("/login").await.0, Some(200));
}

fn tls() -> (Arc<TlsConfig>, TlsConnector) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.der().clone(), made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider));
    let server = server.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let server = server.with_single_cert(vec![certificate.clone()], PrivatePkcs8KeyDer::from(key).into()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider);
    let client = client.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    (Arc::new(server), TlsConnector::from(Arc::new(client.with_no_client_auth())))
}

#[tokio::test(start_paused = true)]
async fn with_a_certificate_it_speaks_tls_and_nothing_else() {
    let (config, connector) = tls();
    let acceptor = TlsAcceptor::from(config);
    let routes = routes(None);
    let connect = async || {
        let (client, server) = duplex(16 << 10);
        let place = Places::default().take().await;
        tokio::spawn(answer(server, Some(acceptor.clone()), ([127, 0, 0, 1], 1).into(), place, routes.clone()));
        client
    };
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = connector.connect(name, connect().await).await.unwrap();
    stream.write_all(&get("/health/live")).await.unwrap();
    assert_eq!(status(&mut stream).await, Some(200));
    let mut plain = connect().await;
    plain.write_all(&get("/health/live")).await.unwrap();
    assert_eq!(status(&mut plain).await, None);
    // One that says nothing is not waited for.
    let began = Instant::now();
    assert!(is_closed(&mut connect().await).await);
    assert!(began.elapsed() < HEAD_TIMEOUT + Duration::from_secs(1));
}

#[tokio::test]
async fn each_connection_gets_the_certificate_of_its_time() {
    let ((first, of_first), (second, of_second)) = (tls(), tls());
    let current = watch::Sender::new(first);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve_at(listener, Some(current.subscribe()), routes(None), Places::default()));
    let name = ServerName::try_from("localhost").unwrap();
    let connect = async |connector: &TlsConnector| {
        connector.connect(name.clone(), TcpStream::connect(address).await.unwrap()).await
    };
    let mut open = connect(&of_first).await.unwrap();
    assert!(connect(&of_second).await.is_err());
    current.send_replace(second);
    assert!(connect(&of_first).await.is_err());
    let mut new = connect(&of_second).await.unwrap();
    // The one that is open goes on.
    for stream in [&mut open, &mut new] {
        stream.write_all(&get("/health/live")).await.unwrap();
        assert_eq!(status(stream).await, Some(200));
    }
}

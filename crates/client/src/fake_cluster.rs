//! Brokers that answer as a test says, and remember who was asked what: for tests of whom a client asks, and how often.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use wire::Reader;
use wire::api::Request;
use wire::api::api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};
use wire::api::metadata::{MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponseTopic};
use wire::frame::{RequestHeader, read_body, write_response};

use crate::{Client, ClientConfig};

/// Something that a broker was asked.
pub(crate) struct Question {
    pub(crate) broker: i32,
    /// How often this broker was asked this before.
    pub(crate) before: usize,
    pub(crate) brokers: Arc<[MetadataResponseBroker]>,
    header: RequestHeader,
    frame: Bytes,
}

impl Question {
    /// The request, if it is one of these.
    pub(crate) fn read<R: Request>(&self) -> Option<R> {
        let mut reader = Reader::new(&self.frame, 0, false);
        RequestHeader::read(&mut reader).unwrap();
        (self.header.api_key == R::API.key).then(|| read_body::<R>(&mut reader).unwrap())
    }

    pub(crate) fn answer<R: Request>(&self, response: &R::Response) -> Option<BytesMut> {
        let mut out = BytesMut::new();
        write_response(&mut out, &R::API, self.header.api_version, self.header.correlation_id, response)
            .expect("the response is small");
        Some(out)
    }
}

type Answers = dyn Fn(&Question) -> Option<BytesMut> + Send + Sync;

struct Shared {
    brokers: Arc<[MetadataResponseBroker]>,
    topics: Vec<MetadataResponseTopic>,
    /// API keys and their highest versions.
    versions: Vec<(i16, i16)>,
    /// Without an answer the broker stays silent.
    answers: Box<Answers>,
    /// Brokers with the API keys of what they were asked.
    asked: Mutex<Vec<(i32, i16)>>,
}

/// Brokers with the ids from 0 on.
pub(crate) struct FakeCluster {
    shared: Arc<Shared>,
}

impl FakeCluster {
    pub(crate) async fn start(
        count: i32,
        topics: Vec<MetadataResponseTopic>,
        versions: &[(i16, i16)],
        answers: impl Fn(&Question) -> Option<BytesMut> + Send + Sync + 'static,
    ) -> Self {
        let (mut brokers, mut listeners) = (Vec::new(), Vec::new());
        for node_id in 0..count {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = i32::from(listener.local_addr().unwrap().port());
            brokers.push(MetadataResponseBroker { node_id, host: "127.0.0.1".to_owned(), port, rack: None });
            listeners.push((node_id, listener));
        }
        let versions = [&[(3, 8), (18, 3)], versions].concat();
        let (answers, asked) = (Box::new(answers), Mutex::default());
        let shared = Arc::new(Shared { brokers: brokers.into(), topics, versions, answers, asked });
        for (broker, listener) in listeners {
            let shared = shared.clone();
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(shared.clone().serve(broker, stream));
                }
            });
        }
        Self { shared }
    }

    /// A client that knows only the first of the brokers.
    pub(crate) fn config(&self) -> ClientConfig {
        ClientConfig::new(vec![format!("127.0.0.1:{}", self.shared.brokers[0].port)])
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(self.config())
    }

    /// The brokers that were asked this, as often as they were asked, in the order of their ids.
    pub(crate) fn asked<R: Request>(&self) -> Vec<i32> {
        let asked = self.shared.asked.lock();
        let mut brokers: Vec<_> = asked.iter().filter(|(_, key)| *key == R::API.key).map(|(id, _)| *id).collect();
        brokers.sort_unstable();
        brokers
    }
}

impl Shared {
    async fn serve(self: Arc<Self>, broker: i32, mut stream: TcpStream) {
        while let Ok(length) = stream.read_i32().await {
            let mut frame = vec![0; length as usize];
            stream.read_exact(&mut frame).await.unwrap();
            let frame = Bytes::from(frame);
            let header = RequestHeader::read(&mut Reader::new(&frame, 0, false)).unwrap();
            let key = (broker, header.api_key);
            let before = self.asked.lock().iter().filter(|asked| **asked == key).count();
            self.asked.lock().push(key);
            let question = Question { broker, before, brokers: self.brokers.clone(), header, frame };
            if let Some(out) = self.own_answer(&question).or_else(|| (self.answers)(&question)) {
                stream.write_all(&out).await.unwrap();
            }
        }
    }

    fn own_answer(&self, question: &Question) -> Option<BytesMut> {
        if question.read::<ApiVersionsRequest>().is_some() {
            let api = |&(api_key, max_version): &(i16, i16)| ApiVersion { api_key, min_version: 0, max_version };
            let api_keys = self.versions.iter().map(api).collect();
            return question.answer::<ApiVersionsRequest>(&ApiVersionsResponse { api_keys, ..Default::default() });
        }
        let wanted = question.read::<MetadataRequest>()?.topics;
        let is_wanted = |topic: &&MetadataResponseTopic| {
            wanted.as_ref().is_none_or(|wanted| wanted.iter().any(|wanted| wanted.name == topic.name))
        };
        question.answer::<MetadataRequest>(&MetadataResponse {
            brokers: self.brokers.to_vec(),
            topics: self.topics.iter().filter(is_wanted).cloned().collect(),
            ..Default::default()
        })
    }
}

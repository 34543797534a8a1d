//! What has arrived on a connection and is not started yet, and the memory that it takes.
//!
//! Memory is charged by the buffer, once for each read, and not by the frame. A slice of a frame, such as a batch in a
//! partition's queue, keeps its buffer charged, without further code. An idle connection has no buffer.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::io::AsyncReadExt;

use crate::memory::{Buffer, Buffers, Charged, Permit, READ_BYTES, SMALL_BYTES_MAX, Share, Waiting};
use crate::stream::Stream;

/// How much of a frame is read at first without a permit: enough to know its claimed size, and all of a small request.
pub const FIRST_READ_BYTES: usize = 2 * 1024;
/// A beginning of a frame up to this size moves to a buffer of its own while the rest is awaited.
const RELEASE_BYTES_MAX: usize = READ_BYTES / 4;

pub struct Input {
    share: Arc<Share>,
    /// Whole frames, and the beginning of one behind them. Empty while `growing` is not.
    arrived: Bytes,
    /// The beginning of a frame.
    growing: Buffer,
    buffers: Arc<Buffers>,
    /// For the memory of `growing`.
    permit: Permit,
    waiting: Option<Waiting>,
    /// There was no permit when the size of the first frame was not known yet.
    is_pressed: bool,
    /// The permit is for all of the first frame, which waited for it.
    is_whole_charged: bool,
}

impl Input {
    pub fn new(share: Arc<Share>, buffers: Arc<Buffers>) -> Self {
        let permit = share.empty_permit();
        Self {
            share,
            arrived: Bytes::new(),
            growing: Buffer::default(),
            buffers,
            permit,
            waiting: None,
            is_pressed: false,
            is_whole_charged: false,
        }
    }

    pub fn bytes(&self) -> &[u8] {
        if self.growing.is_empty() { &self.arrived } else { &self.growing }
    }

    /// How much of the memory it holds: what has arrived, and the permit for more.
    pub fn held_bytes(&self) -> usize {
        self.bytes().len().max(self.permit.bytes())
    }

    /// Whether memory is short and others wait for it.
    pub fn is_short(&self) -> bool {
        self.share.budget().is_short()
    }

    /// Takes a frame that has arrived.
    pub fn split_to(&mut self, size: usize) -> Bytes {
        if !self.growing.is_empty() {
            let bytes = std::mem::take(&mut self.growing);
            let permit = std::mem::replace(&mut self.permit, self.share.empty_permit());
            self.arrived = Charged::share(bytes, permit);
            self.is_whole_charged = false;
        }
        self.arrived.split_to(size)
    }

    /// Whether there is memory to read into. `frame_size` is what the first frame claims to be, once that is known. The
    /// first bytes are read in any case: small requests do not wait behind large ones. When memory is short the whole
    /// rest of a frame is waited for.
    pub fn poll_permit(&mut self, cx: &mut Context<'_>, frame_size: Option<usize>) -> Poll<()> {
        if self.waiting.is_none() && self.has_permit(frame_size) {
            return Poll::Ready(());
        }
        let size = frame_size.unwrap_or(READ_BYTES);
        let (share, held_bytes) = (&self.share, self.permit.bytes());
        let missing = || share.wait_for(size.saturating_sub(held_bytes), size > SMALL_BYTES_MAX);
        let permit = std::task::ready!(Pin::new(self.waiting.get_or_insert_with(missing)).poll(cx));
        self.waiting = None;
        self.permit.merge(permit);
        self.is_whole_charged = true;
        Poll::Ready(())
    }

    fn has_permit(&mut self, frame_size: Option<usize>) -> bool {
        self.is_pressed = false;
        let more = (self.bytes().len() + self.wanted_bytes(frame_size)).saturating_sub(self.permit.bytes());
        let Some(size) = frame_size else {
            self.is_pressed = !self.share.may_begin(more);
            return true;
        };
        if self.is_whole_charged {
            return true;
        }
        let is_large = size > SMALL_BYTES_MAX;
        let may_grow = self.share.may_grow(more, is_large);
        if may_grow && is_large {
            self.permit.make_large();
            self.permit.resize(self.permit.bytes() + more);
        }
        may_grow
    }

    /// How much to reserve: no more than has arrived already, whatever the frame claims, but a whole read.
    fn wanted_bytes(&self, frame_size: Option<usize>) -> usize {
        let arrived = self.bytes().len();
        match frame_size {
            None if self.is_pressed => return FIRST_READ_BYTES,
            Some(size) if self.is_whole_charged => return size.saturating_sub(arrived),
            _ => {}
        }
        let missing = frame_size.map_or(READ_BYTES, |size| size.saturating_sub(arrived));
        match frame_size {
            // Its buffer holds nothing else: no beginning of another frame keeps it.
            Some(size) if size > SMALL_BYTES_MAX => missing.min(arrived.max(READ_BYTES)),
            _ => missing.min(arrived).max(READ_BYTES),
        }
    }

    /// Reads what the socket has, for which there must be a permit. Returns the number of bytes: 0 at its end, `None`
    /// if nothing has arrived. Unlike `try_read_buf`, `poll_read` knows after a short read that there is no more.
    pub async fn read(&mut self, stream: &mut Stream, frame_size: Option<usize>) -> io::Result<Option<usize>> {
        let wanted_bytes = self.wanted_bytes(frame_size);
        if !self.arrived.is_empty() {
            self.growing = self.buffers.take(self.arrived.len() + wanted_bytes);
            self.growing.extend_from_slice(&std::mem::take(&mut self.arrived));
        }
        let enough = if self.is_whole_charged { wanted_bytes } else { wanted_bytes.clamp(1, READ_BYTES / 2) };
        if self.growing.capacity() - self.growing.len() < enough {
            self.grow(wanted_bytes);
        }
        let growing = &mut *self.growing;
        let read = std::future::poll_fn(|cx| Poll::Ready(pin!(stream.read_buf(growing)).poll(cx))).await;
        self.settle();
        match read {
            Poll::Ready(Ok(bytes)) => Ok(Some(bytes)),
            Poll::Ready(Err(error)) if error.kind() != io::ErrorKind::Interrupted => Err(error),
            _ => Ok(None),
        }
    }

    /// Drops the buffer of frames that were taken, if little of it is left.
    pub fn release(&mut self) {
        if !self.arrived.is_empty() && self.arrived.len() <= RELEASE_BYTES_MAX {
            let left = std::mem::take(&mut self.arrived);
            self.growing = self.buffers.take(left.len());
            self.growing.extend_from_slice(&left);
            self.permit.resize(self.growing.capacity());
        }
    }

    /// Makes room for so many bytes behind what has arrived.
    fn grow(&mut self, wanted_bytes: usize) {
        let mut larger = self.buffers.take(self.growing.len() + wanted_bytes);
        larger.extend_from_slice(&self.growing);
        self.growing = larger;
    }

    /// Holds no more than what has arrived needs, and is charged for that.
    fn settle(&mut self) {
        if !self.is_whole_charged && self.growing.len() <= self.growing.capacity() / 2 {
            self.grow(0);
        }
        self.permit.resize(self.growing.capacity());
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::task::Waker;

    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::memory::Budget;

    const MIB: usize = 1 << 20;

    /// What a broker reads of a connection, and its peer's end.
    struct Pair {
        budget: Arc<Budget>,
        input: Input,
        stream: Stream,
        peer: TcpStream,
    }

    impl Pair {
        async fn new(budget_bytes: usize) -> Self {
            Self::of(Budget::new(budget_bytes, 0)).await
        }

        async fn of(budget: Arc<Budget>) -> Self {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let (stream, address) = listener.accept().await.unwrap();
            let input = Input::new(budget.share(address.ip(), false), Buffers::new(8 * MIB));
            Self { budget, input, stream: Stream::Tcp(stream), peer }
        }

        fn poll_permit(&mut self, frame_size: Option<usize>) -> Poll<()> {
            self.input.poll_permit(&mut Context::from_waker(Waker::noop()), frame_size)
        }

        /// Has the peer send bytes, and reads until they are here.
        async fn send(&mut self, bytes: usize, frame_size: Option<usize>) {
            let until = self.input.bytes().len() + bytes;
            let sent = vec![7; bytes];
            let (peer, stream, input) = (&mut self.peer, &mut self.stream, &mut self.input);
            let send = async { peer.write_all(&sent).await.unwrap() };
            let read = async {
                while input.bytes().len() < until {
                    std::future::poll_fn(|cx| stream.poll_read_ready(cx)).await.unwrap();
                    assert!(input.poll_permit(&mut Context::from_waker(Waker::noop()), frame_size).is_ready());
                    input.read(stream, frame_size).await.unwrap();
                }
            };
            tokio::join!(send, read);
        }
    }

    #[tokio::test]
    async fn a_buffer_is_charged_until_the_last_slice_of_it_is_gone() {
        let mut pair = Pair::new(0).await;
        pair.send(1000, None).await;
        assert_eq!(pair.budget.used_bytes(), 1000, "as much as has arrived");
        let frames = [pair.input.split_to(400), pair.input.split_to(600)];
        let batch = frames[1].slice(500..);
        drop(frames);
        assert_eq!((pair.input.bytes().len(), pair.budget.used_bytes()), (0, 1000));
        drop(pair.input);
        assert_eq!(pair.budget.used_bytes(), 1000, "a batch that waits holds it");
        drop(batch);
        assert_eq!(pair.budget.used_bytes(), 0);
    }

    #[tokio::test]
    async fn what_is_left_of_a_buffer_does_not_hold_it() {
        let mut pair = Pair::new(0).await;
        pair.send(60_000, None).await;
        drop(pair.input.split_to(59_990));
        pair.input.release();
        assert_eq!((pair.input.bytes().len(), pair.budget.used_bytes()), (10, 10));
    }

    #[tokio::test]
    async fn a_claim_costs_what_has_arrived_and_as_much_again_at_most() {
        let mut pair = Pair::new(200 * MIB).await;
        let claim = Some(50 * MIB);
        pair.send(100, claim).await;
        assert_eq!(pair.budget.used_bytes(), 100);
        assert!(pair.poll_permit(claim).is_ready());
        assert_eq!(pair.budget.used_bytes(), 100 + READ_BYTES as u64, "one read more");
        pair.send(3 * MIB, claim).await;
        assert!(pair.budget.used_bytes() <= 6 * MIB as u64 + 200, "{}", pair.budget.used_bytes());
        pair.send(50 * MIB - 3 * MIB - 100, claim).await;
        assert_eq!(pair.budget.used_bytes(), 50 << 20);
        drop(pair.input.split_to(50 * MIB));
        assert_eq!(pair.budget.used_bytes(), 0);
    }

    #[tokio::test]
    async fn the_buffer_of_a_large_request_is_kept_when_its_last_slice_is_gone() {
        let mut pair = Pair::new(0).await;
        let size = 300 * 1024;
        pair.send(size, Some(size)).await;
        let batch = pair.input.split_to(size).slice(1000..2000);
        let before = pair.input.buffers.kept_bytes();
        pair.send(size, Some(size)).await;
        drop(pair.input.split_to(size));
        assert_eq!(batch, [7; 1000][..], "no other request has got it");
        let used = pair.input.buffers.kept_bytes();
        assert!(used > before, "that of the second");
        drop(batch);
        assert!(pair.input.buffers.kept_bytes() >= used + size);
        assert_eq!(pair.budget.used_bytes(), 0);
    }

    #[tokio::test]
    async fn without_memory_it_waits_and_goes_on_when_there_is_some() {
        let mut pair = Pair::new(0).await;
        let frame_size = Some(200);
        pair.send(100, None).await;
        let mut others = pair.budget.share(Ipv4Addr::LOCALHOST.into(), false).empty_permit();
        others.resize(8 * MIB);
        assert!(pair.poll_permit(frame_size).is_pending());
        assert!(pair.input.is_short());
        drop(others);
        assert!(pair.poll_permit(frame_size).is_ready());
        assert_eq!(pair.budget.used_bytes(), 200, "it waited for all of it");
        pair.send(100, frame_size).await;
        assert_eq!((pair.input.bytes().len(), pair.budget.used_bytes()), (200, 200));
    }

    #[tokio::test]
    async fn frames_that_have_begun_never_wait_for_each_other_only() {
        for (frame_size, peers) in [(2 * MIB, 6), (MIB, 20)] {
            let budget = Budget::new(0, 2 * MIB);
            let mut pairs = Vec::new();
            for _ in 0..peers {
                let mut pair = Pair::of(Arc::clone(&budget)).await;
                pair.send(100, None).await;
                let (socket, frame) = (pair.peer, vec![7; frame_size - 100]);
                let sender = tokio::spawn(async move { { socket }.write_all(&frame).await });
                pairs.push((pair.stream, pair.input, sender));
            }
            while !pairs.is_empty() {
                let mut has_moved = false;
                for (stream, input, _) in &mut pairs {
                    std::future::poll_fn(|cx| stream.poll_read_ready(cx)).await.unwrap();
                    if input.poll_permit(&mut Context::from_waker(Waker::noop()), Some(frame_size)).is_ready() {
                        input.read(stream, Some(frame_size)).await.unwrap();
                        has_moved = true;
                    }
                }
                pairs.retain(|(_, input, _)| input.bytes().len() < frame_size);
                assert!(has_moved, "{} frames wait for each other", pairs.len());
                assert!(budget.used_bytes() <= budget.size_bytes());
            }
        }
    }

    #[tokio::test]
    async fn a_little_of_a_request_is_read_where_there_is_no_room() {
        let mut pair = Pair::new(0).await;
        let mut others = pair.budget.share(Ipv4Addr::LOCALHOST.into(), false).empty_permit();
        others.resize(8 * MIB);
        pair.peer.write_all(&[7; 3000]).await.unwrap();
        std::future::poll_fn(|cx| pair.stream.poll_read_ready(cx)).await.unwrap();
        assert!(pair.poll_permit(None).is_ready());
        pair.input.read(&mut pair.stream, None).await.unwrap();
        assert_eq!(pair.input.bytes().len(), FIRST_READ_BYTES);
        assert!(pair.poll_permit(Some(3000)).is_pending(), "the rest has to wait");
    }
}

//! Threads that wait for the disk instead of the runtime's, and threads that clients cannot keep busy. A simulation has
//! one thread only: there tasks replace them, which a slow disk keeps waiting.

use std::time::Duration;
use std::{io, thread};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// Threads of the control plane. Nothing there waits for a disk, or for a lock that is held while a disk is waited for.
const CONTROL_PLANE_THREADS: usize = 2;

/// The runtime of what nodes do for each other: quorum, controller, registration and heartbeats. However busy clients
/// keep the runtime that they are served on, the data plane, this one is not behind them. Its tasks end with it.
pub(crate) struct ControlPlane {
    handle: Handle,
    /// None where all share one.
    runtime: Option<Runtime>,
}

impl ControlPlane {
    pub(crate) fn start() -> io::Result<Self> {
        #[cfg(test)]
        if crate::simulation::machine::current().is_some() {
            return Ok(Self { handle: Handle::current(), runtime: None });
        }
        let mut builder = Builder::new_multi_thread();
        let builder = builder.worker_threads(CONTROL_PLANE_THREADS).thread_name("control-plane").enable_all();
        let runtime = builder.build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // It may be dropped by a task, which must not wait for others.
            runtime.shutdown_background();
        }
    }
}

/// How often a thread of the data plane is woken.
const WAKE_INTERVAL: Duration = Duration::from_millis(50);

/// Wakes a thread of the data plane again and again. There one idle thread waits for all sockets and timers, and the
/// others wait for it. If it gets work that blocks it, such as a write to a stalled disk, no thread polls sockets any
/// more until another one is awake and takes over.
pub(crate) async fn keep_awake(data: Handle) {
    loop {
        sleep(WAKE_INTERVAL).await;
        data.spawn(async {});
    }
}

/// Has work done that may wait for the disk, by a thread of the runtime's that is there for it.
pub(crate) fn spawn_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    #[cfg(test)]
    if let Some(machine) = crate::simulation::machine::current() {
        return tokio::spawn(async move {
            machine.wait_for_disk().await;
            work()
        });
    }
    tokio::task::spawn_blocking(work)
}

/// A thread of a broker's own.
pub(crate) enum Thread<T> {
    Thread(thread::JoinHandle<T>),
    #[cfg(test)]
    Task(JoinHandle<T>),
}

impl<T: Send + 'static> Thread<T> {
    /// Waits until it has ended. None if it panicked.
    pub(crate) async fn join(self) -> Option<T> {
        match self {
            Self::Thread(thread) => spawn_blocking(|| thread.join().ok()).await.ok().flatten(),
            #[cfg(test)]
            Self::Task(task) => task.await.ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, channel};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Answers what it gets, and blocks its thread on request.
    async fn serve(listener: TcpListener, gate: Arc<parking_lot::Mutex<Receiver<()>>>) {
        loop {
            let (mut stream, _) = listener.accept().await.expect("it listens");
            let gate = Arc::clone(&gate);
            tokio::spawn(async move {
                while let Ok(byte) = stream.read_u8().await {
                    if byte == b'w' {
                        _ = gate.lock().recv();
                    }
                    _ = stream.write_u8(byte).await;
                }
            });
        }
    }

    #[test]
    fn a_thread_that_waits_does_not_keep_all_others_from_their_sockets() {
        let runtime = |threads| Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap();
        let (data, control) = (runtime(2), runtime(1));
        let listener = data.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let (release, gate) = channel();
        data.spawn(serve(listener, Arc::new(parking_lot::Mutex::new(gate))));
        control.spawn(keep_awake(data.handle().clone()));
        let connect = || {
            let stream = TcpStream::connect(address).unwrap();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            stream
        };
        let echo = |stream: &mut TcpStream, byte: u8| {
            stream.write_all(&[byte]).unwrap();
            stream.read_exact(&mut [0]).expect("it is answered");
        };
        let (mut waiting, mut other) = (connect(), connect());
        for _ in 0..5 {
            echo(&mut waiting, b'a');
            echo(&mut other, b'a');
            // So that both threads sleep, and one of them has the sockets.
            thread::sleep(Duration::from_millis(20));
            waiting.write_all(b"w").unwrap();
            thread::sleep(Duration::from_millis(20));
            echo(&mut other, b'b');
            release.send(()).unwrap();
            waiting.read_exact(&mut [0]).unwrap();
        }
        data.shutdown_background();
        control.shutdown_background();
    }
}

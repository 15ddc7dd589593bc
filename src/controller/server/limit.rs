//! Limits of a listener: the number of connections (see `places`), and the time of writes to one that
//! does not read.
//!
//! Connections beyond the limits are closed when they are accepted, so that those that are served
//! are served well. The time between two requests, with the head of the second, is limited by hyper.
//!
//! Source: deploying.md 5.4.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum_server::{AddrListener, Address};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, Sleep, sleep};

use super::places::{Limits, Place, Places};
use crate::telemetry::Metrics;

pub struct Limited {
    listener: TcpListener,
    places: Arc<Places>,
}

impl Limited {
    pub fn new(
        listener: std::net::TcpListener,
        limits: Limits,
        metrics: Metrics,
    ) -> io::Result<Self> {
        Ok(Self {
            listener: TcpListener::from_std(listener)?,
            places: Places::new(limits, metrics),
        })
    }

    /// Returns how long a connection may rest between two requests.
    pub(super) fn idle(&self) -> Duration {
        self.places.limits.idle
    }
}

/// A client, as the server knows it.
#[derive(Debug, Clone)]
pub struct Peer;

impl Address for Peer {
    type Stream = Connection<TcpStream>;
    type Listener = Limited;
}

impl AddrListener<Connection<TcpStream>, Peer> for Limited {
    async fn bind_to(_: Peer) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    async fn accept_stream(&self) -> io::Result<(Connection<TcpStream>, Peer)> {
        loop {
            let (stream, peer) = self.listener.accept().await?;
            if let Some(place) = Places::take(&self.places, peer.ip()) {
                // An answer in several parts does not wait for the first to be acknowledged.
                stream.set_nodelay(true)?;
                return Ok((Connection::new(stream, place), Peer));
            }
        }
    }

    fn get_local_addr(&self) -> io::Result<Peer> {
        self.listener.local_addr().map(|_| Peer)
    }
}

/// A connection that ends when the client does not take its answer.
pub struct Connection<S> {
    stream: S,
    place: Place,
    /// Runs while nothing can be written.
    stalled: Option<Pin<Box<Sleep>>>,
    /// When the answer began; the next request ends it.
    answering: Option<Instant>,
}

impl<S> Connection<S> {
    fn new(stream: S, place: Place) -> Self {
        Self { stream, place, stalled: None, answering: None }
    }

    fn written<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let began = *self.answering.get_or_insert_with(Instant::now);
        if began.elapsed() > self.place.places.limits.answer {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let stall = self.place.places.limits.stall;
        match self.stalled.get_or_insert_with(|| Box::pin(sleep(stall))).as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.answering = None;
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bytes);
        self.written(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::server::{bind, serve};

    const FEW: Limits = Limits {
        listener: "catalogs",
        connections: 3,
        per_address: 2,
        idle: Duration::from_secs(2),
        stall: Duration::from_millis(500),
        answer: Duration::from_secs(4),
    };

    fn connection() -> (Connection<tokio::io::DuplexStream>, tokio::io::DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(16);
        let place =
            Places::take(&Places::new(FEW, Metrics::default()), [192, 0, 2, 1].into()).unwrap();
        (Connection::new(ours, place), theirs)
    }

    // deploying.md 5.4
    #[tokio::test]
    async fn a_client_that_takes_nothing_is_left() {
        let (mut ours, _theirs) = connection();
        let began = Instant::now();
        let error = ours.write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= FEW.stall && began.elapsed() < FEW.answer);
    }

    // deploying.md 5.4: a slow but living reader gets its answer, though not for ever
    #[tokio::test]
    async fn a_slow_client_is_served_for_a_while() {
        let (mut ours, mut theirs) = connection();
        tokio::spawn(async move {
            let mut buffer = [0; 16];
            while theirs.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                sleep(FEW.stall / 5).await;
            }
        });
        let began = Instant::now();
        ours.write_all(&[0; 16 * 10]).await.unwrap();
        assert!(began.elapsed() > FEW.stall);
        let error = ours.write_all(&[0; 16 * 100]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= FEW.answer);
    }

    // deploying.md P39
    #[tokio::test]
    async fn what_is_too_much_is_closed_and_others_are_served() {
        let metrics = Metrics::default();
        let address = served(&metrics);
        let ask = async || {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n";
            let mut answer = [0; 12];
            // One that was closed may already be known as such.
            let _ = stream.write_all(request).await;
            let read = stream.read(&mut answer).await.unwrap_or_default();
            (stream, String::from_utf8_lossy(&answer[..read]).into_owned())
        };
        let one = ask().await;
        let two = ask().await;
        let three = ask().await;
        assert_eq!([&one.1, &two.1, &three.1], ["HTTP/1.1 404", "HTTP/1.1 404", ""]);
        assert!(metrics.encode().contains("olm_http_connections_refused_total"));
        drop(one);
        let deadline = Instant::now() + Duration::from_secs(10);
        while ask().await.1.is_empty() {
            assert!(Instant::now() < deadline, "its place is free");
        }
    }

    /// Starts a server with few limits.
    fn served(metrics: &Metrics) -> std::net::SocketAddr {
        let listener = bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let listener = Limited::new(listener, FEW, metrics.clone()).unwrap();
        let routes = Router::new();
        tokio::spawn(serve(listener, None, routes, std::future::pending()));
        address
    }

    /// Sends `text` and returns the first line of the answer, empty when there is none.
    async fn said(stream: &mut TcpStream, text: &str) -> String {
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = [0; 1024];
        let read = stream.read(&mut answer).await.unwrap_or_default();
        let text = String::from_utf8_lossy(&answer[..read]);
        text.lines().next().unwrap_or_default().to_owned()
    }

    // deploying.md P40: who asks again soon need not connect again, and who asks half a question is left.
    #[tokio::test]
    async fn a_connection_rests_for_a_while_between_requests() {
        const REQUEST: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        let mut stream = TcpStream::connect(served(&Metrics::default())).await.unwrap();
        for _ in 0..2 {
            assert_eq!(said(&mut stream, REQUEST).await, "HTTP/1.1 404 Not Found");
            let rest = tokio::time::timeout(FEW.idle / 4, stream.read(&mut [0; 1])).await;
            assert!(rest.is_err(), "it is not closed");
        }
        let began = Instant::now();
        assert_eq!(said(&mut stream, "GET / HTTP/1.1\r\n").await, "");
        assert!(began.elapsed() >= FEW.idle / 2 && began.elapsed() < FEW.idle * 4);
    }

    // deploying.md 5.4
    #[tokio::test]
    async fn a_large_request_is_refused() {
        let head = |bytes| format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {bytes}\r\n\r\n");
        // Who sends all of it before reading sees the answer, too.
        let all = head(1024 * 1024) + &"x".repeat(1024 * 1024);
        for (text, want) in [
            (head(64 * 1024 + 1), "HTTP/1.1 413 Payload Too Large"),
            (all, "HTTP/1.1 413 Payload Too Large"),
            (head(64 * 1024), "HTTP/1.1 404 Not Found"),
        ] {
            let mut stream = TcpStream::connect(served(&Metrics::default())).await.unwrap();
            assert_eq!(said(&mut stream, &text).await, want);
        }
    }
}

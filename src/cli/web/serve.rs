//! Connections: few, HTTP/1.1 only, and none that stays silent.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use tokio::sync::Semaphore;

/// Connections at the same time: a browser opens six.
const CONNECTIONS: usize = 64;
/// The time limit for the head of a request.
const HEAD: Duration = Duration::from_secs(10);

/// Serves pages until the program is interrupted.
pub(crate) async fn serve(listener: TcpListener, pages: Router) -> std::io::Result<()> {
    tokio::select! {
        served = accept(listener, pages) => served,
        interrupted = tokio::signal::ctrl_c() => interrupted,
    }
}

async fn accept(listener: TcpListener, pages: Router) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let place = Arc::clone(&room).acquire_owned().await;
        // Neither a client that is gone already nor a lack of file descriptors ends the server.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let service = TowerToHyperService::new(pages.clone());
        tokio::spawn(async move {
            let _place = place;
            let mut server = Builder::new(TokioExecutor::new()).http1_only();
            server.http1().timer(TokioTimer::new()).header_read_timeout(HEAD);
            // What a client does wrong concerns nobody else.
            let _ = server.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

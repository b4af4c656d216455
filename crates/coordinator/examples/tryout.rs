use formwork_coordinator::http::*;
use formwork_coordinator::*;
use std::sync::Arc;
#[tokio::main]
async fn main() {
    let store =
        formwork_store::Store::open("sqlite::memory:", &formwork_store::Options::default()).await.unwrap();
    let app = App::new(
        store,
        Arc::new(Registry::read(std::path::Path::new("/nonexistent"))),
        AppOptions::default(),
    );
    let tail = app.tail().clone();
    tokio::spawn(async move { tail.run().await });
    tokio::spawn(Sweeper::new(app.clone(), SweeperOptions::default()).run());
    let bound = Server::bind(ServerOptions::new("127.0.0.1:8799".parse().unwrap()), app).await.unwrap();
    bound.run(std::future::pending()).await;
}

//! A TCP proxy between a runner and its coordinator, whose connections a test cuts.

use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Forwards connections to a coordinator until the test process ends.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    connections: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    pub(crate) fn start(target: SocketAddr) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (address, connections) =
            (listener.local_addr().unwrap(), Arc::<Mutex<Vec<TcpStream>>>::default());
        let open = connections.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // The coordinator may be down. The client then sees a closed connection.
                let Ok(server) = TcpStream::connect(target) else { continue };
                let clone = |stream: &TcpStream| stream.try_clone().unwrap();
                open.lock().unwrap().extend([clone(&client), clone(&server)]);
                forward(clone(&client), clone(&server));
                forward(server, client);
            }
        });
        Proxy { address, connections }
    }

    /// Cuts all connections, whatever they are sending.
    pub(crate) fn cut(&self) {
        for stream in self.connections.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Copies bytes until one side closes, and then closes the other.
fn forward(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
        let _ = from.shutdown(Shutdown::Read);
    });
}

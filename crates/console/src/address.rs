//! Where the console listens: `HOST:PORT`, or `off`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

/// Where the console listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Off,
    At { host: String, port: u16 },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("it is HOST:PORT, or off")]
    Malformed,
    #[error("{0} is not known")]
    Unknown(String),
}

impl Default for Address {
    fn default() -> Self {
        Self::At { host: Ipv4Addr::LOCALHOST.to_string(), port: 9644 }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text == "off" {
            return Ok(Self::Off);
        }
        let (host, port) = text.rsplit_once(':').ok_or(AddressError::Malformed)?;
        let port = port.parse().map_err(|_| AddressError::Malformed)?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if host.is_empty() {
            return Err(AddressError::Malformed);
        }
        Ok(Self::At { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("off"),
            Self::At { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::At { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

impl Address {
    /// The socket's; `None` for no console. Asks the system where the host is a name.
    pub fn resolve(&self) -> Result<Option<SocketAddr>, AddressError> {
        let Self::At { host, port } = self else { return Ok(None) };
        let unknown = || AddressError::Unknown(host.clone());
        let mut found = (host.as_str(), *port).to_socket_addrs().map_err(|_| unknown())?;
        found.next().map(Some).ok_or_else(unknown)
    }

    /// The name that it is asked for by, if it is one and no address.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::At { host, .. } if host.parse::<IpAddr>().is_err() => Some(host),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown() {
        for (text, address) in [("off", None), ("127.0.0.1:0", Some("127.0.0.1:0")), ("[::1]:9644", Some("[::1]:9644"))]
        {
            let read: Address = text.parse().unwrap();
            assert_eq!(read.to_string(), text);
            assert_eq!(read.resolve(), Ok(address.map(|address| address.parse().unwrap())));
            assert_eq!(read.name(), None);
        }
        assert_eq!("node-1:9644".parse::<Address>().unwrap().name(), Some("node-1"));
        assert_eq!(Address::default().to_string(), "127.0.0.1:9644");
        for wrong in ["", "9644", ":9644", "localhost", "localhost:", "localhost:http", "localhost:65536", "on"] {
            assert_eq!(wrong.parse::<Address>(), Err(AddressError::Malformed), "{wrong}");
        }
    }
}

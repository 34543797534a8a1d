//! Addresses of brokers as people write them.

const DEFAULT_PORT: u16 = 9092;

/// `HOST:PORT`; the port is Kafka's where none is given. Or what is wrong with it.
pub fn bootstrap_server(text: &str) -> Result<String, String> {
    let has_port = text.rsplit_once(':').is_some_and(|(host, port)| {
        !host.is_empty() && !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) && !port.contains(']')
    });
    match text {
        "" => Err("a server is HOST:PORT".to_owned()),
        _ if has_port => match text.rsplit_once(':').map(|(_, port)| port.parse::<u16>()) {
            Some(Ok(_)) => Ok(text.to_owned()),
            _ => Err("the port is a number up to 65535".to_owned()),
        },
        _ if text.ends_with(':') => Err("the port is missing behind the colon".to_owned()),
        _ if text.contains("://") => Err("a server is HOST:PORT, without a scheme".to_owned()),
        _ if text.contains(':') && !text.starts_with('[') => {
            Err("the port is a number; an IPv6 address needs brackets: [::1]:9092".to_owned())
        }
        _ => Ok(format!("{text}:{DEFAULT_PORT}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_without_a_port_gets_kafkas() {
        assert_eq!(bootstrap_server("kafka"), Ok("kafka:9092".to_owned()));
        assert_eq!(bootstrap_server("kafka:1"), Ok("kafka:1".to_owned()));
        assert_eq!(bootstrap_server("[::1]:9093"), Ok("[::1]:9093".to_owned()));
        assert_eq!(bootstrap_server("[::1]"), Ok("[::1]:9092".to_owned()));
        for wrong in ["", "kafka:", "kafka:99999", "kafka:port", "http://kafka", "PLAINTEXT://kafka:9092x"] {
            assert!(bootstrap_server(wrong).is_err(), "{wrong}");
        }
    }
}

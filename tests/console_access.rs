//! The console of a cluster that has users: who is let in, as whom it acts, and what it shows.

use std::path::Path;

mod common;
#[path = "common/console_process.rs"]
mod console_process;
#[path = "common/http.rs"]
mod http;

use common::Broker;
use console_process::Console;
use http::Answer;
use serde_json::Value;

const FORM: (&str, &str) = ("Content-Type", "application/x-www-form-urlencoded");

/// A broker with users of PLAIN and an authorizer, and a console that connects to it as the administrator.
struct Secured {
    _broker: Broker,
    console: Console,
    name: String,
    _dir: tempfile::TempDir,
}

#[expect(clippy::disallowed_methods, reason = "a test has files")]
fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

fn client_properties(user: &str) -> String {
    let login = format!("required username=\"{user}\" password=\"{user}-secret\";");
    format!(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n\
         sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule {login}\n"
    )
}

impl Secured {
    fn start() -> Self {
        let users = r#"user_admin="admin-secret" user_alice="alice-secret""#;
        let jaas = format!("org.apache.kafka.common.security.plain.PlainLoginModule required {users};");
        let settings = [
            "listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT".to_owned(),
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256".to_owned(),
            format!("listener.name.plaintext.plain.sasl.jaas.config={jaas}"),
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer".to_owned(),
            "super.users=User:admin".to_owned(),
        ];
        let settings = settings.iter().flat_map(|setting| ["--set", setting]);
        let broker = Broker::start_with(&["--console", "off"].into_iter().chain(settings).collect::<Vec<_>>());
        let dir = tempfile::tempdir().unwrap();
        let config = dir.path().join("console.properties");
        write(&config, &client_properties("admin"));
        let config = config.to_str().unwrap();
        for topic in ["open", "secret"] {
            broker.ok(&["topic", "create", topic, "--command-config", config]);
        }
        let console = Console::start(&["--bootstrap-server", &broker.address, "--command-config", config]);
        let name = broker.address.replace(':', "%3A");
        Self { _broker: broker, console, name, _dir: dir }
    }

    fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let address = self.console.address.as_str();
        http::request(address, method, path, &[&[("Host", address), FORM], headers].concat(), body)
    }

    fn log_in(&self, form: &str) -> Answer {
        self.request("POST", "/login", &[], &format!("cluster={}&{form}", self.name))
    }

    /// The cookie of a user.
    fn cookie(&self, user: &str) -> String {
        let answer = self.log_in(&format!("user={user}&password={user}-secret"));
        assert_eq!(answer.status, 303, "{}", answer.body);
        answer.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
    }

    fn get(&self, cookie: &str, path: &str) -> Answer {
        self.request("GET", &format!("/clusters/{}{path}", self.name), &[("Cookie", cookie)], "")
    }

    fn post(&self, cookie: &str, path: &str, form: &str) -> Answer {
        self.request("POST", &format!("/clusters/{}{path}", self.name), &[("Cookie", cookie)], form)
    }

    fn json(&self, cookie: &str, path: &str) -> Value {
        let answer = self.request("GET", &format!("/api/v1/clusters/{}{path}", self.name), &[("Cookie", cookie)], "");
        assert_eq!(answer.status, 200, "{}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }
}

fn topics(of: &Value) -> Vec<&str> {
    of["topics"].as_array().unwrap().iter().filter_map(|topic| topic["name"].as_str()).collect()
}

#[test]
fn a_user_logs_in_and_sees_what_it_may() {
    let secured = Secured::start();
    let cluster = format!("/clusters/{}", secured.name);
    let api = format!("/api/v1{cluster}/topics");
    // Nobody is shown anything before that, not even over HTTP Basic with a wrong password.
    for path in ["", "/topics", "/topics/open", "/events", "/users"] {
        assert_eq!(secured.get("", path).status, 401, "{path}");
    }
    let page = secured.request("GET", &cluster, &[("Accept", "text/html")], "");
    let login = format!("/login?cluster={}", secured.name);
    assert_eq!((page.status, page.header("location")), (303, Some(login.as_str())));
    assert!(!secured.request("GET", "/clusters", &[], "").body.contains("of 1"));
    let wrong = secured.log_in("user=alice&password=sesame");
    assert_eq!((wrong.status, wrong.header("set-cookie")), (403, None));
    assert!(!wrong.body.contains("sesame"));
    // alice:sesame, alice:alice-secret
    let basic = |value: &str| secured.request("GET", &api, &[("Authorization", value)], "").status;
    assert_eq!([basic("Basic YWxpY2U6c2VzYW1l"), basic("Basic YWxpY2U6YWxpY2Utc2VjcmV0")], [401, 200]);

    let (alice, admin) = (secured.cookie("alice"), secured.cookie("admin"));
    assert_eq!(topics(&secured.json(&alice, "/topics")), Vec::<&str>::new());
    assert_eq!(topics(&secured.json(&admin, "/topics")), ["open", "secret"]);
    assert_eq!(secured.post(&alice, "/topics/new", "name=mine").status, 422);
    let entry = "principal=User:alice&permission=ALLOW&operations=READ&resource_type=TOPIC&name=open\
                 &pattern_type=LITERAL&host=*";
    let denied = secured.post(&alice, "/acls/new", entry);
    assert!(denied.body.contains("CLUSTER_AUTHORIZATION_FAILED"), "{}", denied.body);
    let added = secured.post(&admin, "/acls/new", entry);
    assert_eq!(added.status, 303, "{}", added.body);

    // At once, for a topic that is asked for by name.
    assert_eq!(secured.get(&alice, "/topics/open").status, 200);
    assert_eq!(topics(&secured.json(&alice, "/topics")), ["open"]);
    for path in ["/topics/secret", "/topics/secret/messages", "/topics/secret/chart", "/topics/none"] {
        assert_eq!(secured.get(&alice, path).status, 404, "{path}");
    }
    for path in ["/lab", "/alerts", "/aborted-transactions", "/remove"] {
        assert_eq!(secured.get(&alice, path).status, 403, "{path}");
    }
    let page = secured.get(&alice, "/acls");
    assert!(page.status == 200 && page.body.contains("an access control list has to allow it"), "{}", page.body);
    let access = secured.json(&admin, "/topics/open/access");
    let principals = access["principals"].as_array().unwrap();
    let told = |at: usize| (principals[at]["principal"].as_str().unwrap(), principals[at]["rule"].as_str().unwrap());
    assert_eq!(
        [told(0), told(1), told(2)],
        [("User:admin", "SuperUser"), ("User:alice", "MatchingAcl"), ("User:*", "DefaultDeny")]
    );
    assert_eq!(secured.json(&admin, "/users/alice")["grants"][0]["allowed"], serde_json::json!(["READ", "DESCRIBE"]));

    let remove = "/acls/remove?resource_type=TOPIC&name=open&pattern_type=LITERAL&principal=User:alice&host=*\
                  &operation=READ&permission=ALLOW";
    assert_eq!(secured.post(&admin, remove, "confirm=User:bob").status, 400);
    assert_eq!(secured.post(&admin, remove, "confirm=User:alice").status, 303);
    assert_eq!(secured.json(&admin, "/acls")["total"], 0);

    assert_eq!(secured.request("POST", "/logout", &[("Cookie", &alice)], "").status, 303);
    assert_eq!((secured.get(&alice, "/topics").status, secured.get(&admin, "/topics").status), (401, 200));
}

#[test]
fn a_user_that_is_made_logs_in_and_its_password_is_nowhere() {
    let secured = Secured::start();
    let admin = secured.cookie("admin");
    let form = "user=carol&mechanism=SCRAM-SHA-256&password=a-canary&repeated=a-canary&iterations=";
    let made = secured.post(&admin, "/users/new", form);
    let page = format!("/clusters/{}/users/carol?done=user-created", secured.name);
    assert_eq!((made.status, made.header("location")), (303, Some(page.as_str())));
    let again = secured.post(&admin, "/users/new", form);
    assert!(again.status == 409 && !again.body.contains("a-canary"), "{}", again.body);
    assert_eq!(secured.log_in("user=carol&password=a-canary&mechanism=SCRAM-SHA-256").status, 303);
    let page = secured.get(&admin, "/users/carol").body;
    assert!(page.contains("SCRAM-SHA-256, 4096 iterations") && !page.contains("a-canary"), "{page}");
    let quotas = secured.post(&admin, "/quotas/edit?user=carol", "producer_byte_rate=1024");
    assert_eq!(quotas.status, 303, "{}", quotas.body);
    let told = secured.json(&admin, "/quotas");
    assert_eq!(told["entities"][0]["quotas"]["producer_byte_rate"], 1024.0);
    assert_eq!(secured.post(&admin, "/users/carol/delete", "confirm=carol").status, 303);
    assert_eq!(secured.log_in("user=carol&password=a-canary&mechanism=SCRAM-SHA-256").status, 403);
}

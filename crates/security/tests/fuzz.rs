//! The bodies of the fuzz targets, on seeds: noise, and what is good with a few bytes changed.

#[path = "../../../fuzz/bodies/distinguished_name.rs"]
mod distinguished_name;
#[path = "../../../fuzz/bodies/jaas.rs"]
mod jaas;
#[path = "../../../fuzz/bodies/jwt.rs"]
mod jwt;
#[path = "../../../fuzz/bodies/pkcs12.rs"]
mod pkcs12;
#[path = "../../../fuzz/bodies/plain.rs"]
mod plain;
#[path = "../../../fuzz/bodies/scram.rs"]
mod scram;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

fn noise(random: &mut Random) -> Vec<u8> {
    let length = random.below(100);
    (0..length).map(|_| random.next() as u8).collect()
}

/// Runs the body on good input, on that with a few bytes changed, removed, doubled or of those that mean something, and
/// on noise.
fn run(body: fn(&[u8]), good: &[&[u8]], signs: &[u8], rounds: usize) {
    let mut random = Random(7);
    for good in good {
        body(good);
        for _ in 0..rounds {
            let mut bytes = good.to_vec();
            for _ in 0..=random.below(4) {
                let position = random.below(bytes.len() + 1);
                let sign = signs[random.below(signs.len())];
                match random.below(6) {
                    0 => bytes.truncate(position),
                    1 => bytes.insert(position, sign),
                    2 if position < bytes.len() => drop(bytes.remove(position)),
                    3 if position < bytes.len() => bytes[position] = sign,
                    4 => bytes.splice(position..position, noise(&mut random)).for_each(drop),
                    _ if position < bytes.len() => bytes[position] ^= 1 << random.below(8),
                    _ => {}
                }
            }
            body(&bytes);
        }
        body(&noise(&mut random));
    }
}

#[test]
fn scram_messages() {
    run(
        scram::run,
        &[
            b"n,,n=user,r=client\0c=biws,r=clientserver,p=AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
            b"n,a=us=2Cer,m=x,n=us=2Cer,r=client,tokenauth=false\0c=bixhPXVzPTJDZXIs,r=clientserver,x=y,p=AA==",
            b"v=AAAA\0r=clientserver,s=AAAA,i=4096",
        ],
        b",=\0nrcapmi2CD4 ",
        1000,
    );
}

#[test]
fn plain_tokens() {
    run(plain::run, &[b"\0alice\0a secret", b"bob\0bob\0b"], b"\0ab", 3000);
}

#[test]
fn bearer_tokens_and_sets_of_keys() {
    // {"alg":"EdDSA","kid":"a"} and {}.
    let token: &[u8] = b"eyJhbGciOiJFZERTQSIsImtpZCI6ImEifQ.e30.AAAA";
    let message = [b"n,a=al=2Cice,\x01auth=Bearer ", token, b"\x01host=x\x01\x01"].concat();
    let keys =
        br#"{"keys":[{"kty":"OKP","kid":"a","crv":"Ed25519","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}]}"#;
    run(jwt::run, &[token, &message, keys], b"\x01,=.{}[]\"\\:eyJ ", 3000);
}

#[test]
fn jaas_configurations() {
    let good: [&[u8]; 2] = [
        b"org.example.PlainLoginModule required username=\"a\\\"b\" user_a='\\101\\n\\\\' password = x ;",
        "x.ScramLoginModule optional a=\"\u{e4}\" b=\"\" ;".as_bytes(),
    ];
    run(jaas::run, &good, b"\"'\\=; \n\r017", 20_000);
}

#[test]
fn distinguished_names_and_rules() {
    let names = include_str!("names/names.txt").lines().filter_map(|line| line.split_once(' '));
    let bytes = |hex: &str| -> Vec<u8> {
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("it is hex")).collect()
    };
    let names: Vec<Vec<u8>> = names.map(|(name, _)| bytes(name)).collect();
    let mut good: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    let certificate = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("it can be made").cert;
    good.push(certificate.der());
    run(distinguished_name::run, &good, &[0x30, 0x31, 0x06, 0x0c, 0x80, 0x81, 0xff, 0], 50);
    let rules: [&[u8]; 2] =
        [b"RULE:^CN=(.*?),O=([a-z\\.]+).*$/$1@$2/L, DEFAULT", b"RULE:[a-z&&[^b]]*+(?:x|\\/)(?=y)\\1/${a}\\$/U"];
    run(distinguished_name::run, &rules, b"()[]{}\\/$?*+^-~:.,<1", 1000);
}

#[test]
fn stores() {
    // Neither signed nor encrypted, so that what is changed is read to its end.
    run(pkcs12::run, &[include_bytes!("stores/plain.p12")], &[0x30, 0x31, 0x06, 0x04, 0xa0, 0x80, 0x81, 0xff, 0], 3000);
    let signed: [&[u8]; 2] = [include_bytes!("stores/java.p12"), include_bytes!("stores/openssl.p12")];
    run(pkcs12::run, &signed, &[0x30, 0x31, 0x06, 0x04, 0xa0, 0x80, 0x81, 0xff, 0], 30);
}

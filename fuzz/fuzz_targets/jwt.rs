#![no_main]

#[path = "../bodies/jwt.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));

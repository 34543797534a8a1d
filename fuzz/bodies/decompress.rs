//! Compressed bytes. The first byte chooses the codec, the second the limit, which no output exceeds.

use wire::compress::{Codec, CompressError, decompress};

pub(crate) fn run(data: &[u8]) {
    let [codec, limit, input @ ..] = data else { return };
    let codec = Codec::ALL[usize::from(*codec) % Codec::ALL.len()];
    let limit = 1 << (limit % 20);
    match decompress(codec, input, limit) {
        Ok(output) => assert!(output.len() <= limit),
        Err(error) => assert!(matches!(error, CompressError::Corrupt(_)) || error == CompressError::TooLarge(limit)),
    }
}

//! Any bytes as a file of a language model: refused, or read, tokenised with and run on one token.
#![no_main]

use custody_models::decoder::{Decoder, LoraAdapter, TokenVocabulary};
use custody_models::gguf::Gguf;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = LoraAdapter::from_bytes(bytes);
    let Ok(gguf) = Gguf::parse(bytes) else { return };
    for name in gguf.names() {
        let _ = gguf.tensor(name).expect("it was named").floats();
    }
    if let Ok(vocabulary) = TokenVocabulary::from_gguf(&gguf) {
        let ids = vocabulary.encode("Hello, <|im_end|> 12 ü.").expect("an ordinary text");
        assert!(ids.iter().all(|id| vocabulary.token(*id).is_some()));
    }
    if let Ok(decoder) = Decoder::from_gguf(&gguf) {
        let logits = decoder.start().read(&[0]).expect("every vocabulary has a first token");
        assert_eq!(logits.len(), decoder.config().vocabulary);
    }
});

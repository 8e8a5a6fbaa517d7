#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| tfstate_fuzz::archives::entry(data));

//! Guided by coverage: FAT images.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some(input) = image_fuzz::Input::parse(bytes) {
        image_fuzz::fat(&input);
    }
});

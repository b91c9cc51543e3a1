//! Measures how long descriptions take until they can run: reading, checking, explaining, laying out and compiling them.

use std::time::{Duration, Instant};

use plyfs_fist::compiler::Compiled;
use plyfs_fist::load::Loaded;

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begin = Instant::now();
    let done = work();
    (done, begin.elapsed())
}

fn main() {
    for path in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&path).expect("a file of text");
        let (loaded, loading) = timed(|| Loaded::of(&path, text));
        let (_, laying_out) = timed(|| plyfs_fist::fmt::format(&loaded.text));
        let told =
            || plyfs_fist::report::report(&path, &loaded.text, &loaded.diagnostics, plyfs_fist::report::Colours::Never);
        let (told, telling) = timed(told);
        let name = path.rsplit('/').next().unwrap_or(&path);
        let times =
            format!("{name:24} loaded in {loading:10.1?}, told in {telling:9.1?}, laid out in {laying_out:9.1?}");
        let Some(program) = &loaded.program else {
            println!("{times}; {}", told.lines().next().unwrap_or_default());
            continue;
        };
        let (_, explaining) = timed(|| plyfs_fist::explain::explain(program, &loaded.text));
        let (compiled, compiling) = timed(|| Compiled::new(program));
        let outcome = compiled.map_or_else(|error| error.to_string(), |_| "compiled".to_owned());
        println!("{times}, explained in {explaining:9.1?}, compiled in {compiling:10.1?}: {outcome}");
    }
}

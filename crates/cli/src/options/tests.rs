//! Tests of mount options.

use super::*;

#[test]
fn options_of_an_fstab_line_are_parsed() {
    let text =
        "noauto,_netdev,x-systemd.automount,comment=x,ro,allow_other,attr_timeout=1.5,fsname=\"a,b\",nosuid,suid";
    let options = parse(text, false).unwrap();
    assert!(options.flags.read_only && !options.flags.no_suid && !options.remount);
    assert_eq!(options.allow_other, Some(true));
    assert_eq!(options.attribute_timeout, Some(Duration::from_millis(1500)));
    assert_eq!(options.source_name.as_deref(), Some("a,b"));
}

#[test]
fn later_options_win_and_empty_ones_are_ignored() {
    assert_eq!(parse("ro,,rw,defaults", false).unwrap(), MountOptions::default());
    assert_eq!(parse("", false).unwrap(), MountOptions::default());
}

#[test]
fn unknown_and_invalid_options_name_the_remedy() {
    let message = |text| parse(text, false).unwrap_err().message;
    assert_eq!(message("alow_other"), "unknown mount option 'alow_other'; did you mean 'allow_other'?");
    assert!(message("lowercase").contains("valid are the common options of mount(8), and allow_other, "));
    assert!(message("uid=1000").ends_with("; to list them: plyfs layers") && message("rbind").contains("mount(8)"));
    assert_eq!(message("noatme"), "unknown mount option 'noatme'; did you mean 'noatime'?");
    assert_eq!(message("nofail=1"), "mount option 'nofail' takes no value; write nofail");
    assert_eq!(
        message("attr_timeout=x"),
        "mount option 'attr_timeout' needs a number of seconds; write attr_timeout=1.5"
    );
    assert_eq!(
        message("attr_timeout=-1"),
        "mount option 'attr_timeout' needs a number of seconds; write attr_timeout=1.5"
    );
    assert_eq!(message("ro=1"), "mount option 'ro' takes no value; write ro");
    assert_eq!(message("writes=x"), "mount option 'writes' is back or through; write writes=through");
    assert_eq!(message("locks=x"), "mount option 'locks' is base or kernel; write locks=base");
    assert_eq!(
        message("stay_awake=2000000"),
        "mount option 'stay_awake' needs microseconds up to 1000000; write stay_awake=200"
    );
    let message_of_without = message("without=passthrough:splice");
    let expected = "mount option 'without': the FUSE protocol has no feature 'splice'; there are async-read, ";
    assert!(message_of_without.starts_with(expected), "{message_of_without}");
    assert!(message("without").contains("no feature ''; there are "));
    assert_eq!(message("fsname="), "mount option 'fsname' needs a name; write fsname=NAME");
    assert!(parse("alow_other", true).is_ok());
    assert_eq!(message("over=x"), "mount option 'over' takes no value; write over");
    assert_eq!(
        message("log-file="),
        "mount option 'log-file' needs the path of a file; write log-file=/var/log/plyfs.log"
    );
    assert_eq!(message("log-level"), "mount option 'log-level' needs a level; write log-level=debug");
    assert_eq!(message("log_file=x"), "unknown mount option 'log_file'; did you mean 'log-file'?");
}

#[test]
fn log_options_have_quoted_lists_and_absolute_paths() {
    let options = parse("over,log-file=\"/l,og\",log-level=\"info,frontends=debug\",ro", false).unwrap();
    assert_eq!(options.log_file.as_deref(), Some(Path::new("/l,og")));
    assert_eq!(options.log_level.as_deref(), Some("info,frontends=debug"));
    assert_eq!(options.to_words(), ["ro", "over", "log-file=/l,og"]);
    let relative = parse("log-file=log", false).unwrap().log_file.unwrap();
    assert_eq!(relative, std::env::current_dir().unwrap().join("log"));
}

#[test]
fn options_convert_back_to_words() {
    let text = "ro,suid,sync,noallow_other,nopassthrough,locks=kernel,attr_timeout=0.5,stay_awake=0,max_read=65536,read_ahead=4096,fsname=x";
    assert_eq!(parse(text, false).unwrap().to_words().join(","), text);
    let twice = parse("without=PASSTHROUGH,without=max_pages:passthrough", false).unwrap();
    assert_eq!(twice.to_words(), ["without=max-pages:passthrough"]);
}

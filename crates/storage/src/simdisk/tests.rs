//! What the simulated disk does to those who use it.

use super::*;
use crate::disk::{read_up_to, write_all_at};

fn write(disk: &SimDisk, path: &str, bytes: &[u8], position: u64) -> io::Result<Arc<dyn File>> {
    let file = disk.open(Path::new(path), OpenMode::Create)?;
    write_all_at(&*file, &mut [IoSlice::new(bytes)], position)?;
    Ok(file)
}

#[test]
fn what_is_synced_survives_and_the_rest_may_not() {
    let (mut whole, mut torn, mut nameless) = (0, 0, 0);
    for seed in 0..200 {
        let disk = SimDisk::new(seed);
        let file = write(&disk, "/a", &[1; 10_000], 0).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        write(&disk, "/a", &[2; 10_000], 10_000).unwrap();
        write(&disk, "/b", &[3; 10], 0).unwrap().sync_data().unwrap();
        disk.crash();
        assert!(file.len().is_err(), "stale files do nothing");
        let bytes = disk.get(Path::new("/a")).unwrap();
        assert_eq!(bytes[..10_000], [1; 10_000]);
        assert!(bytes.len() <= 20_000 && bytes[10_000..].iter().all(|byte| [0, 2].contains(byte)));
        whole += u32::from(bytes.len() == 20_000 && bytes[10_000..] == [2; 10_000]);
        torn += u32::from(bytes[10_000..].contains(&0));
        match disk.get(Path::new("/b")) {
            Some(bytes) => assert_eq!(bytes, [3; 10]),
            None => nameless += 1,
        }
    }
    assert!(whole > 10 && torn > 10 && nameless > 10, "{whole} {torn} {nameless}");
}

#[test]
fn a_kill_loses_nothing() {
    let disk = SimDisk::new(1);
    write(&disk, "/a", b"abc", 0).unwrap();
    disk.kill();
    assert_eq!(disk.get(Path::new("/a")).unwrap(), b"abc");
}

#[test]
fn a_stopped_disk_takes_no_change_until_the_restart() {
    let disk = SimDisk::new(1);
    let root = Path::new("/");
    disk.stop_after(3);
    write(&disk, "/a", b"abc", 0).unwrap();
    disk.sync_dir(root).unwrap();
    assert!(disk.remove_file(Path::new("/a")).is_err());
    assert!(disk.rename(Path::new("/a"), Path::new("/b")).is_err());
    assert!(disk.sync_dir(root).is_err());
    let file = disk.open(Path::new("/a"), OpenMode::ReadWrite).unwrap();
    assert!(file.set_len(0).is_err() && file.sync_data().is_err());
    assert!(disk.open(Path::new("/b"), OpenMode::Create).is_err());
    disk.kill();
    assert_eq!(disk.get(Path::new("/a")).unwrap(), b"abc");
    disk.remove_file(Path::new("/a")).unwrap();
}

#[test]
fn a_failed_sync_is_clean_the_second_time_and_the_bytes_are_gone() {
    let disk = SimDisk::new(1);
    let file = write(&disk, "/a", b"abc", 0).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    disk.fail(SimOp::Sync, 0, Errno::IO);
    assert!(file.sync_data().is_err());
    file.sync_data().unwrap();
    disk.crash();
    assert_ne!(disk.get(Path::new("/a")).unwrap(), b"abc");
}

#[test]
fn a_full_disk_takes_a_part_and_then_nothing() {
    let disk = SimDisk::new(1);
    disk.set_free_bytes(5);
    let file = disk.open(Path::new("/a"), OpenMode::Create).unwrap();
    let error = write_all_at(&*file, &mut [IoSlice::new(b"abcdefgh")], 0).unwrap_err();
    assert!(crate::disk::is_disk_full(&error));
    assert_eq!(disk.get(Path::new("/a")).unwrap(), b"abcde");
    disk.set_free_bytes(100);
    disk.set_file_bytes_max(6);
    let error = write_all_at(&*file, &mut [IoSlice::new(b"fgh")], 5).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(Errno::FBIG.raw_os_error()));
}

#[test]
fn what_hangs_goes_on_when_the_disk_answers_and_not_in_a_process_that_is_dead() {
    let disk = SimDisk::new(1);
    let file = write(&disk, "/a", b"abc", 0).unwrap();
    for (ends, is_written) in [(SimDisk::set_hangs as fn(&SimDisk, bool), true), (|disk, _| disk.kill(), false)] {
        disk.set_hangs(true);
        let thread = {
            let file = Arc::clone(&file);
            std::thread::spawn(move || file.write_at(&[IoSlice::new(b"xyz")], 0))
        };
        let mut buffer = [0; 3];
        assert_eq!(read_up_to(&*file, &mut buffer, 0).unwrap(), 3, "reads go on");
        while disk.0.lock().waiting == 0 {
            assert!(!thread.is_finished(), "it does not wait");
            std::thread::yield_now();
        }
        ends(&disk, false);
        assert_eq!(thread.join().unwrap().is_ok(), is_written);
    }
}

#[test]
fn what_is_evicted_is_read_from_the_disk_once() {
    let disk = SimDisk::new(1);
    let file = write(&disk, "/a", &[1; 3 * PAGE_BYTES], 0).unwrap();
    let mut buffer = [0; 2 * PAGE_BYTES];
    disk.evict();
    assert_eq!(file.read_cached_at(&mut buffer, 0).unwrap(), 2 * PAGE_BYTES, "it is not on the platter");
    file.sync_data().unwrap();
    disk.evict();
    let is_cold = |read: io::Result<usize>| read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock);
    assert!(is_cold(file.read_cached_at(&mut buffer, 0)));
    assert_eq!(file.read_cached_at(&mut buffer, 3 * PAGE_BYTES as u64).unwrap(), 0, "the end of the file");
    assert_eq!(file.read_at(&mut buffer[..1], PAGE_BYTES as u64).unwrap(), 1);
    assert_eq!(file.read_cached_at(&mut buffer, PAGE_BYTES as u64 + 1).unwrap(), PAGE_BYTES - 1);
    disk.set_hangs(true);
    let thread = {
        let file = Arc::clone(&file);
        std::thread::spawn(move || file.read_at(&mut [0; 10], 0))
    };
    while disk.waiting() == 0 {
        assert!(!thread.is_finished(), "it does not wait");
        std::thread::yield_now();
    }
    assert!(is_cold(file.read_cached_at(&mut buffer, 0)), "who asks for what is cached does not wait");
    assert_eq!(file.read_at(&mut buffer[..1], PAGE_BYTES as u64).unwrap(), 1, "nor does who reads it");
    disk.set_hangs(false);
    assert_eq!(thread.join().unwrap().unwrap(), 10);
    disk.crash();
    let file = disk.open(Path::new("/a"), OpenMode::Read);
    assert!(file.is_err() || is_cold(file.unwrap().read_cached_at(&mut buffer, 0)));
}

#[test]
fn removed_files_stay_readable_while_open() {
    let disk = SimDisk::new(1);
    let file = write(&disk, "/a", b"abc", 0).unwrap();
    disk.remove_file(Path::new("/a")).unwrap();
    let mut buffer = [0; 3];
    assert_eq!(read_up_to(&*file, &mut buffer, 0).unwrap(), 3);
    assert!(disk.get(Path::new("/a")).is_none());
}

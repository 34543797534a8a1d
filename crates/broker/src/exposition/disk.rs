//! How full the disk is, and when it will be full if it goes on like this.

use std::fmt;

use super::page::Page;
use crate::stats::DiskSpace;

pub(super) fn write(page: &mut Page<'_>, disk: &DiskSpace) -> fmt::Result {
    let Some((space, seconds_left)) = disk.now() else { return Ok(()) };
    page.gauge("parshall_disk_free_bytes", "Free space of the disk with the data", space.free_bytes)?;
    page.gauge("parshall_disk_total_bytes", "Size of the disk with the data", space.total_bytes)?;
    page.gauge(
        "parshall_disk_threshold_bytes",
        "disk.capacity.policy acts while less than this is free",
        space.threshold_bytes,
    )?;
    page.gauge("parshall_disk_reserve_bytes", "Nothing is appended while less than this is free", space.reserve_bytes)?;
    page.gauge("parshall_disk_full", "1 if records are refused because the disk is full", u64::from(space.is_full))?;
    page.gauge(
        "parshall_disk_forecast_seconds",
        "When the threshold is reached if the disk fills as it did in the last hour; +Inf if it does not",
        seconds_left,
    )?;
    page.counter(
        "parshall_disk_policy_deleted_segments",
        "Segments that disk.capacity.policy has deleted",
        disk.deleted_segments.get(),
    )?;
    page.counter(
        "parshall_disk_policy_deleted_bytes",
        "Bytes that disk.capacity.policy has deleted",
        disk.deleted_bytes.get(),
    )
}

//! What goes wrong in a run, and how often. Chosen by the seed, and printed with it.

use storage::simdisk::Rng;

/// How often each of these happens, as a share of all that happens; 0 is never. In each run some are left out, and one
/// comes more often, so that what needs several of a kind, or quiet, comes about too.
#[derive(Clone, Debug)]
pub(super) struct Faults {
    /// Of each thousand steps, in how many something happens.
    pub(super) steps_per_mille: u64,
    pub(super) end_one: u64,
    pub(super) end_all: u64,
    /// Of the ends, how many are power losses.
    pub(super) power_loss_percent: u64,
    /// Of the ends of all, after how many all start at once.
    pub(super) restart_percent: u64,
    pub(super) start_all: u64,
    pub(super) start_one: u64,
    pub(super) leave: u64,
    /// A log is lost, and its node starts first.
    pub(super) lose_log: u64,
    pub(super) wipe: u64,
    pub(super) flip_metadata_bit: u64,
    pub(super) cut: u64,
    pub(super) cut_one_way: u64,
    pub(super) heal_network: u64,
    pub(super) late_bytes: u64,
    pub(super) reset_connection: u64,
    pub(super) stop: u64,
    pub(super) go_on: u64,
    pub(super) slow_disk: u64,
    pub(super) hanging_disk: u64,
    pub(super) full_disk: u64,
    pub(super) io_error: u64,
    pub(super) wrong_clock: u64,
    pub(super) reassign: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    EndOne,
    EndAll,
    StartAll,
    StartOne,
    Leave,
    LoseLog,
    Wipe,
    FlipMetadataBit,
    Cut,
    CutOneWay,
    HealNetwork,
    LateBytes,
    ResetConnection,
    Stop,
    GoOn,
    SlowDisk,
    HangingDisk,
    FullDisk,
    IoError,
    WrongClock,
    Reassign,
}

impl Faults {
    pub(super) fn choose(rng: &mut Rng) -> Self {
        let mut faults = Self {
            steps_per_mille: 3 + 3 * rng.below(5),
            end_one: 12,
            end_all: 4,
            power_loss_percent: [20, 50, 80][rng.below(3) as usize],
            restart_percent: 50,
            start_all: 12,
            start_one: 8,
            leave: 4,
            lose_log: 4,
            wipe: 3,
            flip_metadata_bit: 4,
            cut: 6,
            cut_one_way: 7,
            heal_network: 10,
            late_bytes: 4,
            reset_connection: 4,
            stop: 6,
            go_on: 6,
            slow_disk: 4,
            hanging_disk: 2,
            full_disk: 1,
            io_error: 4,
            wrong_clock: 3,
            reassign: 4,
        };
        let varied = [
            &mut faults.leave,
            &mut faults.lose_log,
            &mut faults.wipe,
            &mut faults.flip_metadata_bit,
            &mut faults.cut,
            &mut faults.cut_one_way,
            &mut faults.stop,
            &mut faults.slow_disk,
            &mut faults.hanging_disk,
            &mut faults.full_disk,
            &mut faults.io_error,
            &mut faults.wrong_clock,
            &mut faults.reassign,
        ];
        let favourite = rng.below(varied.len() as u64) as usize;
        for (at, share) in varied.into_iter().enumerate() {
            *share = match at {
                _ if at == favourite => *share * 5,
                _ if rng.percent(30) => 0,
                _ => *share,
            };
        }
        faults
    }

    /// One of them, as often as it is its share.
    pub(super) fn next(&self, rng: &mut Rng) -> Fault {
        let shares = self.shares();
        let mut at = rng.below(shares.iter().map(|(_, share)| share).sum());
        for (fault, share) in shares {
            if at < share {
                return fault;
            }
            at -= share;
        }
        Fault::StartAll
    }

    fn shares(&self) -> [(Fault, u64); 21] {
        [
            (Fault::EndOne, self.end_one),
            (Fault::EndAll, self.end_all),
            (Fault::StartAll, self.start_all),
            (Fault::StartOne, self.start_one),
            (Fault::Leave, self.leave),
            (Fault::LoseLog, self.lose_log),
            (Fault::Wipe, self.wipe),
            (Fault::FlipMetadataBit, self.flip_metadata_bit),
            (Fault::Cut, self.cut),
            (Fault::CutOneWay, self.cut_one_way),
            (Fault::HealNetwork, self.heal_network),
            (Fault::LateBytes, self.late_bytes),
            (Fault::ResetConnection, self.reset_connection),
            (Fault::Stop, self.stop),
            (Fault::GoOn, self.go_on),
            (Fault::SlowDisk, self.slow_disk),
            (Fault::HangingDisk, self.hanging_disk),
            (Fault::FullDisk, self.full_disk),
            (Fault::IoError, self.io_error),
            (Fault::WrongClock, self.wrong_clock),
            (Fault::Reassign, self.reassign),
        ]
    }
}

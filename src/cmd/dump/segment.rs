//! A segment, batch by batch: `kafka-dump-log.sh`'s layout, and going on behind what is damaged.

use std::io::{self, Write};
use std::path::Path;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value};
use storage::disk::read_exact_at;
use wire::batch::{Batch, BatchHeader};
use wire::record::{Record, RecordReader};

use super::Dump;
use super::decode::{self, Decoder};
use super::log_file::{LogFile, base_offset};
use crate::cmd::bytes::put_json;

/// A batch may not decompress to more.
const RECORDS_BYTES_MAX: usize = 512 << 20;

#[derive(Serialize)]
struct BatchLine {
    r#type: &'static str,
    position: u64,
    size: usize,
    base_offset: i64,
    last_offset: i64,
    count: i32,
    partition_leader_epoch: i32,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    is_transactional: bool,
    is_control: bool,
    timestamp_type: &'static str,
    base_timestamp: i64,
    max_timestamp: i64,
    compression: &'static str,
    crc: u32,
}

impl Dump<'_> {
    pub(super) fn segment(&mut self, path: &Path) -> io::Result<()> {
        self.title()?;
        let log = LogFile::open(self, path)?;
        let decoder = Self::decoder(path);
        let base = base_offset(path);
        let mut position = 0;
        let mut next_offset = None;
        while position < log.length {
            let header = match log.header(position)? {
                Some(header) if log.crc_fits(position, &header)? => header,
                found => match self.bad_batch(&log, position, found, next_offset)? {
                    Some(next) => {
                        position = next;
                        // What was lost is lost: the next batch may have any offset from here on.
                        continue;
                    }
                    None => break,
                },
            };
            if let Some(expected) = next_offset.filter(|expected| header.base_offset < *expected) {
                self.damage(format_args!(
                    "position {position}: the batch starts at offset {} where {expected} or more is due",
                    header.base_offset
                ))?;
            }
            if !base.is_none_or(|base| (base..=base.saturating_add(i32::MAX.into())).contains(&header.last_offset())) {
                self.damage(format_args!(
                    "position {position}: offset {} cannot be in a segment of this name",
                    header.last_offset()
                ))?;
            }
            next_offset = Some(header.next_offset());
            self.batch(position, &header)?;
            if self.print_data {
                self.records(&log, position, &header, decoder)?;
            }
            position += header.size() as u64;
        }
        Ok(())
    }

    /// Tells what is wrong with the batch at a position, and where the next sound one starts.
    fn bad_batch(
        &mut self,
        log: &LogFile,
        position: u64,
        header: Option<BatchHeader>,
        next_offset: Option<i64>,
    ) -> io::Result<Option<u64>> {
        if log.is_zero_from(position)? {
            return Ok(None);
        }
        let behind = match &header {
            Some(header) => position + header.size() as u64,
            None => position + 1,
        };
        // Where the header is sound, so is its length, most of the time.
        let next = match log.header(behind)? {
            Some(next) if header.is_some() && log.crc_fits(behind, &next)? => Some(behind),
            _ => log.find_batch(position + 1)?,
        };
        let lost = next.unwrap_or(log.length) - position;
        match (header, next) {
            (Some(header), _) => self.damage(format_args!(
                "position {position}: the batch of offsets {} to {} has a wrong checksum, {lost} bytes are unreadable",
                header.base_offset,
                header.last_offset()
            ))?,
            (None, Some(_)) => self.damage(format_args!(
                "position {position}: there is no batch where offset {} is due, {lost} bytes are unreadable",
                next_offset.unwrap_or(0)
            ))?,
            (None, None) => self.damage(format_args!(
                "position {position}: the last {lost} bytes are no whole batch; offset {} is due there",
                next_offset.unwrap_or(0)
            ))?,
        }
        Ok(next)
    }

    fn batch(&mut self, position: u64, header: &BatchHeader) -> io::Result<()> {
        let attributes = header.attributes;
        let timestamp_type = if attributes.is_log_append_time() { "LogAppendTime" } else { "CreateTime" };
        let compression = attributes.codec().map_or("unknown", wire::compress::Codec::name);
        let horizon = match attributes.has_delete_horizon() {
            true => format!("OptionalLong[{}]", header.base_timestamp),
            false => "OptionalLong.empty".to_owned(),
        };
        let line = BatchLine {
            r#type: "batch",
            position,
            size: header.size(),
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            count: header.record_count,
            partition_leader_epoch: header.partition_leader_epoch,
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
            is_transactional: attributes.is_transactional(),
            is_control: attributes.is_control(),
            timestamp_type,
            base_timestamp: header.base_timestamp,
            max_timestamp: header.max_timestamp,
            compression,
            crc: header.crc,
        };
        let last_sequence = if header.base_sequence < 0 { -1 } else { header.last_sequence() };
        self.line(
            format_args!(
                "baseOffset: {} lastOffset: {} count: {} baseSequence: {} lastSequence: {last_sequence} producerId: {} \
                 producerEpoch: {} partitionLeaderEpoch: {} isTransactional: {} isControl: {} \
                 deleteHorizonMs: {horizon} position: {position} {timestamp_type}: {} size: {} magic: {} \
                 compresscodec: {compression} crc: {} isvalid: true",
                line.base_offset,
                line.last_offset,
                line.count,
                line.base_sequence,
                line.producer_id,
                line.producer_epoch,
                line.partition_leader_epoch,
                line.is_transactional,
                line.is_control,
                line.max_timestamp,
                line.size,
                header.magic,
                line.crc,
            ),
            &line,
        )
    }

    fn records(&mut self, log: &LogFile, position: u64, header: &BatchHeader, decoder: Decoder) -> io::Result<()> {
        let mut bytes = vec![0; header.size()];
        read_exact_at(&*log.file, &mut bytes, position)?;
        let batch = Batch { header: *header, bytes: Bytes::from(bytes) };
        let first_offset = header.base_offset;
        let section = match batch.records(RECORDS_BYTES_MAX) {
            Ok(section) => section,
            Err(error) => {
                return self.damage(format_args!("position {position}: the batch at offset {first_offset}: {error}"));
            }
        };
        for record in RecordReader::new(header, &section) {
            match record {
                Ok(record) => self.record(header, &record, &section, decoder)?,
                Err(error) => {
                    return self
                        .damage(format_args!("position {position}: the batch at offset {first_offset}: {error}"));
                }
            }
        }
        Ok(())
    }

    fn record(
        &mut self,
        header: &BatchHeader,
        record: &Record<'_>,
        section: &Bytes,
        decoder: Decoder,
    ) -> io::Result<()> {
        let share = |field: Option<&[u8]>| field.map(|field| section.slice_ref(field));
        let (key, value) = (share(record.key), share(record.value));
        let decoded = match header.attributes.is_control() {
            true => Some(decode::control(key.as_ref())),
            false => decoder.decode(key.as_ref(), value.as_ref()),
        };
        if self.json {
            return self.record_json(record, decoded);
        }
        let size = |field: Option<&[u8]>| field.map_or(-1, |field| field.len() as i64);
        let sequence = match header.base_sequence {
            ..0 => -1,
            base => wire::batch::add_sequence(base, (record.offset - header.base_offset) as i32),
        };
        let timestamp_type = if header.attributes.is_log_append_time() { "LogAppendTime" } else { "CreateTime" };
        let header_keys: Vec<_> = record.headers.iter().map(|(name, _)| decode::text(name)).collect();
        write!(
            self.out,
            "| offset: {} {timestamp_type}: {} keySize: {} valueSize: {} sequence: {sequence} headerKeys: [{}]",
            record.offset,
            record.timestamp,
            size(record.key),
            size(record.value),
            header_keys.join(",")
        )?;
        match decoded {
            Some(decoded) => write!(self.out, " {decoded}")?,
            None => {
                if let Some(key) = record.key {
                    write!(self.out, " key: {}", decode::text(key))?;
                }
                if let Some(value) = record.value {
                    write!(self.out, " payload: {}", decode::text(value))?;
                }
            }
        }
        writeln!(self.out)
    }

    fn record_json(&mut self, record: &Record<'_>, decoded: Option<String>) -> io::Result<()> {
        let mut object = Map::new();
        object.insert("type".to_owned(), Value::from("record"));
        object.insert("file".to_owned(), Value::from(self.file.as_str()));
        object.insert("offset".to_owned(), Value::from(record.offset));
        object.insert("timestamp".to_owned(), Value::from(record.timestamp));
        put_json(&mut object, "key", record.key);
        put_json(&mut object, "value", record.value);
        let header = |(name, value): (&[u8], Option<&[u8]>)| {
            let mut object = Map::new();
            put_json(&mut object, "name", Some(name));
            put_json(&mut object, "value", value);
            Value::Object(object)
        };
        if !record.headers.is_empty() {
            object.insert("headers".to_owned(), record.headers.iter().map(header).collect());
        }
        if let Some(decoded) = decoded {
            object.insert("decoded".to_owned(), Value::from(decoded));
        }
        serde_json::to_writer(&mut self.out, &object)?;
        self.out.write_all(b"\n")
    }
}

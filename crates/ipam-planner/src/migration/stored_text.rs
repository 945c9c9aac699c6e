//! The texts under which a migration is stored. One object of a cluster holds 1 MiB, so the moves lie
//! in parts of their own, which never change, and the waves and the state in the main record.
//!
//! It must never know what an object is.

use serde_json::{Value, json};

use super::document::MoveDocument;
use super::migration_record::{FORMAT_VERSION, MigrationRecord, MigrationRecordError, major};

/// Bytes of a part after which another one begins: far below 1 MiB, because a move can be long.
const PART_BYTES: usize = 400_000;

impl MigrationRecord {
    /// The text of the main record.
    pub fn to_text(&self) -> String {
        let mut schedule = self.schedule.clone();
        schedule.moves.clear();
        // No program reads them after the begin.
        schedule.left_out.clear();
        let main = MigrationRecord {
            schedule,
            ..self.clone()
        };
        let mut main = json!(main);
        main["parts"] = json!(self.chunks().len());
        main.to_string()
    }

    /// The texts of its parts, in order.
    pub fn part_texts(&self) -> Vec<String> {
        let parts = self.chunks();
        let text = |moves: &Vec<Value>| json!({"migration": self.id, "moves": moves}).to_string();
        parts.iter().map(text).collect()
    }

    fn chunks(&self) -> Vec<Vec<Value>> {
        let mut parts: Vec<Vec<Value>> = Vec::new();
        let mut bytes = PART_BYTES;
        for one in &self.schedule.moves {
            let one = json!(one);
            let length = one.to_string().len();
            if bytes + length > PART_BYTES {
                parts.push(Vec::new());
                bytes = 0;
            }
            bytes += length;
            if let Some(last) = parts.last_mut() {
                last.push(one);
            }
        }
        parts
    }

    /// Reads a stored record with its parts, in order.
    ///
    /// # Errors
    /// Fails if a text is anything else, of another major version, or missing.
    pub fn read(text: &str, parts: &[&str]) -> Result<MigrationRecord, MigrationRecordError> {
        let main: Value = serde_json::from_str(text)?;
        let version = main["formatVersion"].as_str().unwrap_or_default();
        if major(version) != major(FORMAT_VERSION) {
            return Err(MigrationRecordError::Version(version.to_owned()));
        }
        let wanted = main["parts"].as_u64().unwrap_or_default();
        let mut record: MigrationRecord = serde_json::from_value(main)?;
        if wanted != parts.len() as u64 {
            let seen = parts.len();
            return Err(MigrationRecordError::Parts { seen, wanted });
        }
        for part in parts {
            let mut part: Value = serde_json::from_str(part)?;
            let moves: Vec<MoveDocument> = serde_json::from_value(part["moves"].take())?;
            record.schedule.moves.extend(moves);
        }
        match record.schedule.is_unedited() {
            true => Ok(record),
            false => Err(MigrationRecordError::Edited),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migration::tests::stored_record;

    /// Bytes that one ConfigMap holds (`pkg/apis/core/validation` @ 1.36).
    const MOST: usize = 1024 * 1024;

    fn read_again(record: &MigrationRecord) -> Result<MigrationRecord, MigrationRecordError> {
        let parts = record.part_texts();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        MigrationRecord::read(&record.to_text(), &parts)
    }

    #[test]
    fn a_migration_of_5000_nodes_fits_into_its_objects() {
        let record = stored_record(5_000);
        let texts = [vec![record.to_text()], record.part_texts()].concat();
        assert!(texts.len() > 2);
        assert!(texts.iter().all(|text| text.len() < MOST * 3 / 4));
        let read = read_again(&record).unwrap();
        assert_eq!(read, record);
    }

    #[test]
    fn a_record_without_all_its_parts_is_refused() {
        let record = stored_record(3);
        assert_eq!(record.part_texts().len(), 1);
        let error = MigrationRecord::read(&record.to_text(), &[]).unwrap_err();
        let expected = "0 of its 1 parts exist: the others were deleted";
        assert_eq!(error.to_string(), expected);
        let part = record.part_texts().concat().replace("10.1.0", "10.9.0");
        let edited = MigrationRecord::read(&record.to_text(), &[&part]);
        assert!(matches!(edited, Err(MigrationRecordError::Edited)));
    }

    #[test]
    fn a_record_of_another_major_version_is_refused() {
        for version in ["1.0", "3.1"] {
            let text = stored_record(1).to_text();
            let text = text.replace(r#""2.0""#, &format!("\"{version}\""));
            let error = MigrationRecord::read(&text, &[]).unwrap_err();
            let expected = format!("it has format version {version}, and this program reads 2.0");
            assert_eq!(error.to_string(), expected);
        }
    }
}

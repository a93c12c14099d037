//! Saving and restoring prefixes. Both may take long and must not run on threads that serve sockets; the engine continues
//! meanwhile and copies one part at a time.
//!
//! Not here: the file format (`header`), and copying parts (`crate::serve`).

use super::checksum::Checksum;
use super::error::PrefixError;
use super::header::{self, BYTES, Header, SUM};
use super::identity::identity;
use super::name::FileName;
use crate::serve::{EnginePages, Service};
use doorbell_core::backend::{PageError, PageFormat};
use doorbell_core::engine::KvPart;
use doorbell_core::gguf::Gguf;
use doorbell_core::plan::PAGE_TOKENS;
use doorbell_core::token::TokenId;
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// A folder for the saved prefixes of one model.
#[derive(Debug)]
pub struct PrefixFolder {
    path: PathBuf,
    model: u64,
    /// Bytes that its files may take.
    limit: u64,
    /// Held while a file is written or read: one at a time.
    busy: Mutex<()>,
}

/// A saved prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Tokens of whole pages.
    pub tokens: u32,
    /// Bytes of the file.
    pub bytes: u64,
}

/// A restored prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Tokens of whole pages.
    pub tokens: Vec<TokenId>,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Parts of a prefix that are released on drop.
struct Held<'s> {
    service: &'s Service,
    parts: Vec<KvPart>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let parts = core::mem::take(&mut self.parts);
        // if the engine has ended, its pages are gone, too
        _ = self.service.run_task(move |engine| engine.release_prefix(&parts));
    }
}

/// Reads one part into the buffer and returns the buffer, as long as the part.
fn read_part(service: &Service, part: KvPart, mut buffer: Vec<u8>) -> Result<Vec<u8>, PrefixError> {
    let read = service.run_task(move |engine| {
        buffer.resize(engine.part_bytes(part), 0);
        engine.read_part(part, &mut buffer).map(|()| buffer)
    })?;
    Ok(read?)
}

/// Fills one part from the buffer and returns the buffer.
fn write_part(service: &Service, part: KvPart, buffer: Vec<u8>) -> Result<Vec<u8>, PrefixError> {
    let written = service.run_task(move |engine| engine.write_part(part, &buffer).map(|()| buffer))?;
    Ok(written?)
}

/// Properties of the engine that a file has to agree with.
struct EngineInfo {
    form: PageFormat,
    vocabulary: u32,
    /// Pages of the longest prefix.
    pages: u32,
}

fn engine_info(service: &Service) -> Result<EngineInfo, PrefixError> {
    let (form, vocabulary, pages) = service.run_task(|engine: &mut dyn EnginePages| {
        (engine.page_format(), engine.vocabulary(), engine.pages())
    })?;
    Ok(EngineInfo { form: form.ok_or(PageError::Unsupported)?, vocabulary, pages })
}

/// Number of parts of a prefix, and the bytes of all of them.
fn prefix_bytes(service: &Service, pages: u32) -> Result<(u64, u64), PrefixError> {
    let sizes = service.run_task(move |engine| engine.prefix_bytes(pages))?;
    Ok(sizes.ok_or(PageError::Unsupported)?)
}

impl PrefixFolder {
    /// A folder for the prefixes of a model.
    ///
    /// # Errors
    /// There is no such folder, or the system returns an error.
    pub fn new(path: &Path, gguf: &Gguf<'_>) -> Result<Self, PrefixError> {
        if !fs::metadata(path)?.is_dir() {
            return Err(PrefixError::System(io::ErrorKind::NotADirectory));
        }
        Ok(Self { path: path.to_owned(), model: identity(gguf), limit: u64::MAX, busy: Mutex::new(()) })
    }

    /// The folder with a limit for the bytes that all its files take. A file that would exceed it is refused.
    #[must_use]
    pub fn with_limit(self, bytes: u64) -> Self {
        Self { limit: bytes, ..self }
    }

    /// Refuses a file of so many bytes if it exceeds the limit together with the files that stay.
    fn check_limit(&self, name: &FileName, bytes: u64) -> Result<(), PrefixError> {
        let mut total = bytes;
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_name() != name.as_str() && entry.file_type()?.is_file() {
                total = total.saturating_add(entry.metadata()?.len());
            }
        }
        if total > self.limit { Err(PrefixError::Full { bytes, limit: self.limit }) } else { Ok(()) }
    }

    fn lock(&self) -> Result<MutexGuard<'_, ()>, PrefixError> {
        match self.busy.try_lock() {
            Ok(guard) => Ok(guard),
            // a panic leaves at worst an unfinished file
            Err(TryLockError::Poisoned(guard)) => Ok(guard.into_inner()),
            Err(TryLockError::WouldBlock) => Err(PrefixError::Busy),
        }
    }

    /// Saves the cached pages of a slot's tokens.
    ///
    /// # Errors
    /// [`PrefixError`]; an earlier file of that name then still exists.
    pub fn save(&self, service: &Service, slot: u32, name: &FileName) -> Result<Saved, PrefixError> {
        let _lock = self.lock()?;
        let slots = service.slots().count();
        let mut tokens = service.slots().tokens(slot).ok_or(PrefixError::Slot { slot, slots })?;
        let form = engine_info(service)?.form;
        let wanted = tokens.clone();
        let (pages, parts) = service.run_task(move |engine| engine.acquire_prefix(&wanted))??;
        let held = Held { service, parts };
        tokens.truncate(pages as usize * PAGE_TOKENS);
        let count = u32::try_from(tokens.len()).map_err(|_| PrefixError::Token)?;
        let header = Header {
            model: self.model,
            form: header::names(&form),
            tokens: count,
            unit_bytes: form.total() as u64,
        };
        let bytes = header.file_bytes(prefix_bytes(service, pages)?).unwrap_or(u64::MAX);
        self.check_limit(name, bytes)?;
        let unfinished = self.path.join(name.unfinished());
        let written =
            write_file(&held, &header, &tokens, &unfinished).map(|()| Saved { tokens: count, bytes });
        let finished = written.and_then(|saved| {
            fs::rename(&unfinished, self.path.join(name.as_str()))?;
            // the new name must outlive a power cut, too
            File::open(&self.path)?.sync_all()?;
            Ok(saved)
        });
        if finished.is_err() {
            // the rest is useless, and the first error is the one to report
            _ = fs::remove_file(&unfinished);
        }
        finished
    }

    /// Assigns the tokens of a file to a slot, and adds their keys and values to the prefix cache.
    ///
    /// # Errors
    /// [`PrefixError`]; the slot is then unchanged.
    pub fn restore(&self, service: &Service, slot: u32, name: &FileName) -> Result<Restored, PrefixError> {
        let _lock = self.lock()?;
        let slots = service.slots().count();
        if slot as usize >= slots {
            return Err(PrefixError::Slot { slot, slots });
        }
        let path = self.path.join(name.as_str());
        // neither a link nor a pipe, which would never end
        if !fs::symlink_metadata(&path)?.is_file() {
            return Err(PrefixError::NotAFile);
        }
        let file = File::open(&path)?;
        let found = file.metadata()?.len();
        let engine = engine_info(service)?;
        let mut file = BufReader::new(file);
        let header = self.header(&mut file, &engine.form)?;
        if header.pages() > u64::from(engine.pages) {
            return Err(PrefixError::TooLong { needed: header.pages(), pages: engine.pages });
        }
        let count = u32::try_from(header.pages()).unwrap_or(u32::MAX);
        let expected = header.file_bytes(prefix_bytes(service, count)?);
        let expected = expected.filter(|_| (header.tokens as usize).is_multiple_of(PAGE_TOKENS));
        let expected = expected.ok_or(PrefixError::Damaged { part: "header" })?;
        if expected != found {
            return Err(PrefixError::Length { expected, found });
        }
        let (tokens, sum) = read_tokens(&mut file, &header, engine.vocabulary)?;
        let parts = service.run_task(move |engine| engine.allocate_prefix(count))??;
        let mut held = Held { service, parts };
        let mut buffer = Vec::new();
        for (number, &part) in (0..).zip(&held.parts) {
            buffer.resize(service.run_task(move |engine| engine.part_bytes(part))?, 0);
            file.read_exact(&mut buffer).map_err(|_| PrefixError::Damaged { part: "pages" })?;
            if read_sum(&mut file)? != Checksum::of(part_seed(sum, number), &buffer) {
                return Err(PrefixError::Damaged { part: "pages" });
            }
            buffer = write_part(service, part, buffer)?;
        }
        let (parts, adopted) = (core::mem::take(&mut held.parts), tokens.clone());
        service.run_task(move |engine| engine.insert_prefix(&adopted, &parts))?;
        service.slots().set(slot, tokens.clone());
        Ok(Restored { tokens, bytes: found })
    }

    /// Reads the header and checks it against the model and the engine.
    fn header(&self, file: &mut impl Read, form: &PageFormat) -> Result<Header, PrefixError> {
        let mut bytes = [0; BYTES];
        file.read_exact(&mut bytes).map_err(|_| PrefixError::Foreign)?;
        let header = Header::parse(&bytes)?;
        if header.model != self.model {
            return Err(PrefixError::Model);
        }
        let (own, total) = (header::names(form), form.total());
        if header.form != own || header.unit_bytes != total as u64 {
            return Err(PrefixError::Form {
                expected: format!("{}, {total} bytes a page", header::display_names(&own)),
                found: format!("{}, {} bytes a page", header::display_names(&header.form), header.unit_bytes),
            });
        }
        Ok(header)
    }

    /// Removes a slot's tokens from the slot and from the prefix cache; returns their number.
    ///
    /// # Errors
    /// [`PrefixError::Slot`], [`PrefixError::Service`]
    pub fn erase(service: &Service, slot: u32) -> Result<usize, PrefixError> {
        let slots = service.slots().count();
        let tokens = service.slots().tokens(slot).ok_or(PrefixError::Slot { slot, slots })?;
        let count = tokens.len();
        service.run_task(move |engine| engine.evict_prefix(&tokens))?;
        service.slots().set(slot, Vec::new());
        Ok(count)
    }
}

/// Writes a file with the tokens and parts of a prefix.
fn write_file(held: &Held<'_>, header: &Header, tokens: &[TokenId], path: &Path) -> Result<(), PrefixError> {
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(&header.to_bytes())?;
    let bytes: Vec<u8> = tokens.iter().flat_map(|token| token.0.to_le_bytes()).collect();
    file.write_all(&bytes)?;
    let sum = Checksum::of(header.model, &bytes);
    file.write_all(&sum.to_le_bytes())?;
    let mut buffer = Vec::new();
    for (number, &part) in (0..).zip(&held.parts) {
        buffer = read_part(held.service, part, buffer)?;
        file.write_all(&buffer)?;
        file.write_all(&Checksum::of(part_seed(sum, number), &buffer).to_le_bytes())?;
    }
    file.flush()?;
    Ok(file.get_ref().sync_data()?)
}

/// Seed of a part's checksum: it differs for each part, so that swapped parts are detected.
fn part_seed(tokens: u64, number: u64) -> u64 {
    tokens.wrapping_add(number)
}

fn read_sum(file: &mut impl Read) -> Result<u64, PrefixError> {
    let mut bytes = [0; SUM];
    file.read_exact(&mut bytes).map_err(|_| PrefixError::Damaged { part: "pages" })?;
    Ok(u64::from_le_bytes(bytes))
}

/// Reads the tokens and their checksum. The length of the file has been checked.
fn read_tokens(
    file: &mut impl Read,
    header: &Header,
    vocabulary: u32,
) -> Result<(Vec<TokenId>, u64), PrefixError> {
    let mut bytes = vec![0; header.tokens as usize * 4];
    file.read_exact(&mut bytes).map_err(|_| PrefixError::Damaged { part: "tokens" })?;
    let sum = Checksum::of(header.model, &bytes);
    if read_sum(file)? != sum {
        return Err(PrefixError::Damaged { part: "tokens" });
    }
    let tokens: Vec<TokenId> =
        bytes.as_chunks().0.iter().map(|&bytes| TokenId(u32::from_le_bytes(bytes))).collect();
    if tokens.iter().any(|token| token.0 >= vocabulary) {
        return Err(PrefixError::Token);
    }
    Ok((tokens, sum))
}

#include "data/corpus.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>

#include "base/hash.h"
#include "base/log.h"
#include "base/parallel.h"
#include "plumb/error.h"
#include "text/text_files.h"

namespace plumb {
namespace {

constexpr uint64_t kSmallestBlock = 256, kLargestBlock = 64 << 10;
constexpr uint64_t kHeldOutBlocks = 16;     // about so many, where the text is long enough
constexpr uint64_t kBytesAtOnce = 8 << 20;  // of text in memory
constexpr auto kUnused = std::chrono::days(30);

std::string default_cache_folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return join_path(cache, "plumb");
  if (const char* home = std::getenv("HOME"); home && *home) return join_path(home, ".cache/plumb");
  throw Error(ErrorKind::usage,
              "there is no place for tokenized text: set HOME or XDG_CACHE_HOME, or name a cache folder");
}

uint64_t hash_status(const TextFiles& files) {
  Hash hash;
  for (const TextFile& file : files.files) {
    hash.add(absolute_path(file.path));
    hash.add(file.size);
    hash.add(static_cast<uint64_t>(file_status(file.path).modified_ns));
  }
  return hash.value();
}

// Writes the two parts of a token file: training ids into the file itself, held-out ids beside it until their
// place is known.
class Writer {
 public:
  Writer(const std::string& path, const TokenFileHeader& header)
      : file_(path), held_out_(path + ".held-out"), header_(header) {
    file_.write(std::string(kTokenFileHeader, '\0'));
  }

  void add_block(const std::vector<int32_t>& ids, uint64_t bytes, bool held_out, bool new_file) {
    if (open_ && (new_file || held_out != part_)) end_document();
    part_ = held_out;
    open_ = true;
    (part_ ? header_.valid_bytes : header_.train_bytes) += bytes;
    put(ids.data(), ids.size());
  }

  void commit() {
    if (open_) end_document();
    held_out_.flush();
    const MappedFile rest(held_out_.temporary_path());
    file_.write(rest.data(), rest.size());
    file_.write_at(0, &header_, sizeof header_);
    file_.commit();
  }

 private:
  void end_document() {
    put(&header_.end_token, 1);
    ++header_.documents;
    open_ = false;
  }
  void put(const int32_t* ids, size_t count) {
    AtomicFile& file = part_ ? held_out_ : file_;
    (part_ ? header_.valid_count : header_.train_count) += count;
    if (header_.id_bytes == 4) {
      file.write(ids, count * 4);
      return;
    }
    narrow_.assign(ids, ids + count);
    file.write(narrow_.data(), count * 2);
  }

  AtomicFile file_, held_out_;
  TokenFileHeader header_;
  std::vector<uint16_t> narrow_;
  bool part_ = false;  // of the last block: whether it was held out
  bool open_ = false;  // whether its document still goes on
};

class Builder {
 public:
  Builder(const std::string& path, const TokenFileHeader& header, const Tokenizer& tokenizer)
      : writer_(path, header), tokenizer_(tokenizer), header_(header) {}

  void run(const TextFiles& files, const TextOptions& options) {
    uint64_t done = 0;
    for (const TextFile& file : files.files) {
      TextReader reader(file.path, header_.block_bytes);
      new_file_ = true;
      for (std::string block; reader.next(block);) {
        done += block.size();
        waiting_bytes_ += block.size();
        blocks_.push_back({std::move(block), {}, new_file_});
        new_file_ = false;
        if (waiting_bytes_ < kBytesAtOnce) continue;
        write_waiting();
        if (options.progress) options.progress("tokenizing", done, files.bytes);
      }
    }
    write_waiting();
    if (options.progress) options.progress("tokenizing", done, files.bytes);
    writer_.commit();
  }

 private:
  struct Block {
    std::string text;
    std::vector<int32_t> ids;
    bool new_file;
  };

  void write_waiting() {
    parallel_for(blocks_.size(),
                 [&](size_t i, size_t) { blocks_[i].ids = tokenizer_.encode(blocks_[i].text); });
    for (const Block& block : blocks_) {
      const double before = static_cast<double>(number_++) * header_.held_out + 0.5;
      const bool held_out = std::floor(before + header_.held_out) > std::floor(before);
      writer_.add_block(block.ids, block.text.size(), held_out, block.new_file);
    }
    blocks_.clear();
    waiting_bytes_ = 0;
  }

  Writer writer_;
  const Tokenizer& tokenizer_;
  const TokenFileHeader& header_;
  std::vector<Block> blocks_;
  uint64_t waiting_bytes_ = 0, number_ = 0;
  bool new_file_ = true;
};

// The file there, if it is whole and was made from the same: by the cheap sign, or by content once that is
// known.
std::optional<TokenFile> find_usable(const std::string& path, const TokenFileHeader& wanted) {
  if (!path_exists(path)) return std::nullopt;
  try {
    TokenFile file(path);
    const TokenFileHeader& header = file.header();
    const bool same_text = header.status_hash == wanted.status_hash ||
                           (wanted.content_hash != 0 && header.content_hash == wanted.content_hash);
    if (same_text && header.tokenizer_hash == wanted.tokenizer_hash && header.held_out == wanted.held_out)
      return file;
  } catch (const Error&) {
    return std::nullopt;  // damaged: made again
  }
  return std::nullopt;
}

void remove_files(const std::string& folder, const std::string& start, const std::string& end) {
  for (const std::string& name : list_folder(folder)) {
    if (name.starts_with(start) && name.ends_with(end)) remove_file(join_path(folder, name));
  }
}

// Each token file has a lock beside it, whose time is when it was last opened. Files of either kind and what
// killed processes left of them go when that is long ago, if nobody holds the lock. Whoever has the file
// mapped keeps its content; whoever was waiting for the lock makes the file again.
void remove_unused(const std::string& folder) {
  const auto oldest =
      std::chrono::nanoseconds((std::chrono::system_clock::now() - kUnused).time_since_epoch());
  for (const std::string& name : list_folder(folder)) {
    const std::string path = join_path(folder, name);
    const auto is_old = [&] { return file_status(path).modified_ns < oldest.count(); };
    try {
      if (!name.ends_with(".tokens.lock") || !is_old()) continue;
      const auto lock = FileLock::try_lock(path);
      if (lock && is_old()) remove_files(folder, name.substr(0, name.rfind('.')), "");
    } catch (const Error& error) {
      log_debug(error.what());  // another user's, or gone meanwhile: no reason to stop
    }
  }
}

TokenFileHeader header_for(const Tokenizer& tokenizer, const TextOptions& options) {
  if (!(options.held_out >= 0 && options.held_out <= 0.5)) {
    throw Error(ErrorKind::usage,
                fmt::format("the held-out share is {}, expected 0 to 0.5", options.held_out));
  }
  const auto end = tokenizer.special(TokenRole::eos);
  if (!end)
    throw Error(ErrorKind::input,
                "the tokenizer has no end-of-text token (eos), which closes every document");
  TokenFileHeader header;
  header.vocab_size = static_cast<uint32_t>(tokenizer.vocab_size());
  header.id_bytes = header.vocab_size <= 1 + std::numeric_limits<uint16_t>::max() ? 2 : 4;
  header.end_token = *end;
  header.tokenizer_hash = tokenizer.fingerprint();
  header.held_out = options.held_out;
  return header;
}

}  // namespace

TokenFile open_corpus(const std::string& path, const Tokenizer& tokenizer, const TextOptions& options) {
  TokenFileHeader header = header_for(tokenizer, options);
  TextFiles files = list_text_files({path});
  header.status_hash = hash_status(files);

  const std::string folder = options.cache_folder.empty() ? default_cache_folder() : options.cache_folder;
  make_folder(folder);
  Hash key;
  key.add(absolute_path(path));
  key.add(header.tokenizer_hash);
  key.add(fmt::format("{}", header.held_out));
  const std::string token_name = hash_hex(key.value()) + ".tokens";
  const std::string token_path = join_path(folder, token_name);

  const FileLock lock(token_path + ".lock");
  touch_file(token_path + ".lock");
  if (auto file = find_usable(token_path, header)) return *file;
  header.content_hash = check_text_files(files);
  if (const std::string notice = skip_notice(files); !notice.empty()) log_info(notice);
  if (auto file = find_usable(token_path, header)) return *file;

  header.files = files.files.size();
  const double held_out_bytes = static_cast<double>(files.bytes) * options.held_out;
  header.block_bytes =
      options.held_out == 0
          ? kLargestBlock
          : std::clamp(static_cast<uint64_t>(held_out_bytes / kHeldOutBlocks), kSmallestBlock, kLargestBlock);
  remove_files(folder, token_name, ".tmp");  // of processes that were killed
  Builder(token_path, header, tokenizer).run(files, options);
  remove_unused(folder);
  return TokenFile(token_path);
}

}  // namespace plumb

// SentencePiece's own file, a ModelProto (sentencepiece_model.proto of that package).
#include <fmt/format.h>

#include "base/file.h"
#include "base/protobuf.h"
#include "plumb/error.h"
#include "text/sentencepiece.h"
#include "text/tokenizer_files.h"

namespace plumb {
namespace {

struct File {
  SentencePieces pieces;
  SentencePieceRules rules;
  uint64_t type = 1;  // TrainerSpec.ModelType
  std::string bos = "<s>", eos = "</s>", pad = "<pad>";
};

std::string name_or(std::string_view name, const std::string& fallback) {
  return name.empty() ? fallback : std::string(name);
}

SentencePiece read_piece(ProtobufReader message, const std::string& path, size_t id) {
  SentencePiece piece;
  while (message.next()) {
    if (message.field() == 1) piece.text = message.bytes();
    if (message.field() == 2) piece.score = message.f32();
    if (message.field() == 3) {
      const uint64_t type = message.whole();
      if (type < 1 || type > 6)
        throw Error(ErrorKind::file,
                    fmt::format("{}: piece {} has type {}, expected 1 to 6", path, id, type));
      piece.type = static_cast<PieceType>(type);
    }
  }
  return piece;
}

void read_trainer(ProtobufReader message, File& file) {
  while (message.next()) {
    switch (message.field()) {
      case 3:
        file.type = message.whole();
        break;
      case 24:
        file.rules.whitespace_as_suffix = message.flag();
        break;
      case 35:
        file.pieces.byte_fallback = message.flag();
        break;
      case 44:
        file.rules.unknown_surface = message.bytes();
        break;
      case 46:
        file.bos = name_or(message.bytes(), file.bos);
        break;
      case 47:
        file.eos = name_or(message.bytes(), file.eos);
        break;
      case 48:
        file.pad = name_or(message.bytes(), file.pad);
        break;
      default:
        break;
    }
  }
}

void read_rules(ProtobufReader message, SentencePieceRules& rules) {
  while (message.next()) {
    if (message.field() == 2) rules.charsmap = message.bytes();
    if (message.field() == 3) rules.add_dummy_prefix = message.flag();
    if (message.field() == 4) rules.remove_extra_whitespaces = message.flag();
    if (message.field() == 5) rules.escape_whitespaces = message.flag();
  }
}

void read_file(ProtobufReader message, const std::string& path, File& file) {
  SentencePieceRules denormalizer;
  while (message.next()) {
    if (message.field() == 1)
      file.pieces.list.push_back(read_piece(message.message(), path, file.pieces.list.size()));
    if (message.field() == 2) read_trainer(message.message(), file);
    if (message.field() == 3) read_rules(message.message(), file.rules);
    if (message.field() == 5) read_rules(message.message(), denormalizer);
  }
  if (!denormalizer.charsmap.empty())
    throw Error(ErrorKind::unsupported, fmt::format("{}: denormalizer_spec has rules of its own", path));
}

}  // namespace

void read_sentencepiece_file(const std::string& path, Tokenizer::Impl& impl) {
  const MappedFile mapped(path);
  File file;
  read_file(ProtobufReader(mapped.bytes(), path), path, file);
  using Kind = SentencePieces::Kind;
  if (file.type != 1 && file.type != 2 && file.type != 4) {
    throw Error(ErrorKind::unsupported,
                fmt::format("{}: a SentencePiece model of type {}; this build reads unigram (1), BPE (2) and "
                            "characters (4)",
                            path, file.type));
  }
  file.pieces.kind = file.type == 1 ? Kind::unigram : file.type == 2 ? Kind::bpe : Kind::characters;
  const std::vector<SentencePiece>& list = file.pieces.list;
  set_sentencepiece(file.pieces, file.rules, path, impl);
  const auto role = [&](TokenRole which, const std::string& text, PieceType type) {
    for (size_t id = 0; id < list.size(); ++id) {
      if (list[id].type == type && (text.empty() || list[id].text == text))
        impl.roles[static_cast<size_t>(which)] = static_cast<int32_t>(id);
    }
  };
  role(TokenRole::bos, file.bos, PieceType::control);
  role(TokenRole::eos, file.eos, PieceType::control);
  role(TokenRole::pad, file.pad, PieceType::control);
  role(TokenRole::unk, "", PieceType::unknown);
}

}  // namespace plumb

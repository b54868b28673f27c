#include "plumb/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/file.h"
#include "base/test_support.h"
#include "data/synthetic.h"

namespace plumb {
namespace {

class DatasetTest : public testing::Test {
 protected:
  DatasetTest() {
    std::string text;
    for (int i = 0; i < 4000; ++i)
      text += "this is line " + std::to_string(i * 7919 % 10007) + " of the text\n";
    write_file_atomically(path(), text);
  }
  std::string path() const { return folder_ / "text"; }
  TextOptions options(uint64_t seed = 1) const {
    return {.seed = seed, .held_out = 0.05, .cache_folder = folder_.str(), .progress = {}};
  }
  Dataset text(uint64_t seed = 1) const { return Dataset::text(path(), Tokenizer::bytes(), options(seed)); }
  Dataset masked(uint64_t seed = 1) const {
    return Dataset::masked_text(path(), Tokenizer::bytes(), options(seed));
  }
  TempFolder folder_;
};

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

// What must hold for every batch.
void check_shape(const Batch& batch, int64_t rows, int64_t length) {
  EXPECT_EQ(batch.rows, rows);
  EXPECT_EQ(batch.length, length);
  const size_t inputs = static_cast<size_t>(rows * length);
  EXPECT_EQ(batch.ids.size(), inputs);
  EXPECT_EQ(batch.mask.size(), inputs);
  const bool two = batch.decoder_length > 0;
  const size_t outputs = two ? static_cast<size_t>(rows * batch.decoder_length) : inputs;
  EXPECT_EQ(batch.decoder_ids.size(), two ? outputs : 0);
  EXPECT_EQ(batch.decoder_mask.size(), two ? outputs : 0);
  EXPECT_EQ(batch.targets.size(), outputs);
  EXPECT_EQ(batch.target_count, std::count_if(batch.targets.begin(), batch.targets.end(),
                                              [](int32_t t) { return t != kIgnoreTarget; }));
  const auto& mask = two ? batch.decoder_mask : batch.mask;
  for (size_t i = 0; i < outputs; ++i) {
    EXPECT_TRUE(mask[i] || batch.targets[i] == kIgnoreTarget) << i;
  }
}

std::vector<int32_t> row_of(const std::vector<int32_t>& values, int64_t row, int64_t length) {
  return {values.begin() + row * length, values.begin() + (row + 1) * length};
}

TEST_F(DatasetTest, TrainingWindowsAreTheTextShifted) {
  const Dataset data = text();
  const Batch batch = data.batch(3, 0, 4, 32);
  check_shape(batch, 4, 32);
  EXPECT_EQ(batch.target_count, 4 * 32);
  const std::string source = read_file(path());
  for (int64_t row = 0; row < 4; ++row) {
    const auto ids = row_of(batch.ids, row, 32), targets = row_of(batch.targets, row, 32);
    EXPECT_TRUE(std::equal(ids.begin() + 1, ids.end(), targets.begin()));
    const bool crosses = std::count(ids.begin(), ids.end(), 256) > 0;  // a place where held-out text was
    EXPECT_TRUE(crosses || source.find(data.tokenizer().decode(ids)) != std::string::npos);
  }
}

TEST_F(DatasetTest, BatchesAreAFunctionOfSeedStepAndRow) {
  for (const Dataset& data : {text(), masked()}) {
    const Batch six = data.batch(7, 0, 6, 16);
    for (const int64_t rows : {1, 2, 3}) {
      for (int64_t row = 0; row < 6; ++row) {
        const Batch part = data.batch(7, row / rows, rows, 16);
        EXPECT_EQ(row_of(part.ids, row % rows, 16), row_of(six.ids, row, 16));
        EXPECT_EQ(row_of(part.targets, row % rows, 16), row_of(six.targets, row, 16));
      }
    }
    EXPECT_NE(data.batch(8, 0, 6, 16).ids, six.ids);
  }
  EXPECT_EQ(text(1).batch(7, 0, 6, 16).ids, text(1).batch(7, 0, 6, 16).ids);
  EXPECT_NE(text(1).batch(7, 0, 6, 16).ids, text(2).batch(7, 0, 6, 16).ids);
}

TEST_F(DatasetTest, EvaluationMeetsEveryHeldOutTargetOnce) {
  const Dataset data = text();
  for (const auto& [rows, length] : {std::pair<int64_t, int64_t>{3, 50}, {1, 7}, {64, 128}, {2, 100000}}) {
    std::vector<int32_t> inputs, targets;
    const int64_t batches = data.evaluation_batches(Split::validation, rows, length);
    for (int64_t i = 0; i < batches; ++i) {
      const Batch batch = data.evaluation_batch(Split::validation, i, rows, length);
      check_shape(batch, batch.rows, length);
      EXPECT_EQ(i + 1 < batches ? rows : batch.rows, batch.rows);
      for (size_t j = 0; j < batch.ids.size(); ++j) {
        if (batch.mask[j]) {
          inputs.push_back(batch.ids[j]);
          targets.push_back(batch.targets[j]);
        } else {
          EXPECT_EQ(batch.ids[j], 257);
        }
      }
    }
    EXPECT_EQ(static_cast<int64_t>(targets.size()), data.token_count(Split::validation) - 1);
    EXPECT_TRUE(std::equal(inputs.begin() + 1, inputs.end(), targets.begin()));
  }
  EXPECT_EQ(data.evaluation_batches(Split::validation, 4, 16, 3), 3);
  EXPECT_EQ(data.evaluation_batches(Split::test, 4, 16), 0);
  EXPECT_EQ(message_of([&] { data.evaluation_batch(Split::test, 0, 4, 16); }),
            "evaluation batch 0 was asked for, but there are 0");
}

TEST_F(DatasetTest, HeldOutTextIsNotInTraining) {
  const Dataset data = text();
  std::string train;
  const int64_t batches = data.evaluation_batches(Split::train, 64, 1000);
  for (int64_t i = 0; i < batches; ++i) {
    const Batch batch = data.evaluation_batch(Split::train, i, 64, 1000);
    for (size_t j = 0; j < batch.ids.size(); ++j) {
      if (batch.mask[j]) train += batch.ids[j] == 256 ? '\0' : static_cast<char>(batch.ids[j]);
    }
  }
  EXPECT_NEAR(static_cast<double>(train.size()), static_cast<double>(data.token_count(Split::train)), 1);
  const Batch held = data.evaluation_batch(Split::validation, 0, 1, 200);
  const std::string line = data.tokenizer().decode(row_of(held.ids, 0, 200));
  const size_t start = line.find("this is line"), end = line.find('\n', start);
  ASSERT_NE(end, std::string::npos);
  EXPECT_EQ(train.find(line.substr(start, end + 1 - start)), std::string::npos);  // each line occurs once
  EXPECT_EQ(data.byte_count(Split::train) + data.byte_count(Split::validation),
            static_cast<int64_t>(read_file(path()).size()));
}

TEST_F(DatasetTest, MaskingFollowsItsShares) {
  const Dataset plain = text(), data = masked();
  int64_t places = 0, chosen = 0, mask = 0, kept = 0;
  for (int64_t step = 0; step < 30; ++step) {
    const Batch batch = data.batch(step, 0, 8, 128), original = plain.batch(step, 0, 8, 128);
    check_shape(batch, 8, 128);
    for (size_t i = 0; i < batch.ids.size(); ++i) {
      places += original.ids[i] < 256;
      if (batch.targets[i] == kIgnoreTarget) {
        EXPECT_EQ(batch.ids[i], original.ids[i]);
        continue;
      }
      EXPECT_EQ(batch.targets[i], original.ids[i]);
      EXPECT_LT(batch.targets[i], 256);  // no special token
      ++chosen;
      mask += batch.ids[i] == 258;
      kept += batch.ids[i] == original.ids[i];
      EXPECT_TRUE(batch.ids[i] == 258 || batch.ids[i] < 256);
    }
  }
  // 30720 places: standard deviations of 0.2 %, 0.6 % and 0.45 %.
  const double total = static_cast<double>(chosen);
  EXPECT_NEAR(total / static_cast<double>(places), 0.15, 0.008);
  EXPECT_NEAR(static_cast<double>(mask) / total, 0.8, 0.025);
  EXPECT_NEAR(static_cast<double>(kept) / total, 0.1, 0.02);
}

TEST_F(DatasetTest, MaskedRowsHaveATarget) {
  const Dataset data = masked();
  const Batch batch = data.batch(0, 0, 64, 2);
  for (int64_t row = 0; row < 64; ++row) {
    const auto targets = row_of(batch.targets, row, 2);
    EXPECT_LT(std::count(targets.begin(), targets.end(), kIgnoreTarget), 2);
  }
  const Batch valid = data.evaluation_batch(Split::validation, 0, 4, 64);
  check_shape(valid, 4, 64);
  EXPECT_GE(valid.target_count, 4);
  EXPECT_EQ(valid.ids, data.evaluation_batch(Split::validation, 0, 4, 64).ids);
}

TEST_F(DatasetTest, ShortTextsAndOddRequests) {
  write_file_atomically(path(), "tiny");
  const Dataset data = text();
  EXPECT_EQ(data.token_count(Split::train), 5);
  EXPECT_EQ(data.evaluation_batches(Split::validation, 4, 16), 0);
  EXPECT_EQ(data.batch(0, 0, 2, 4).ids.size(), 8u);
  EXPECT_EQ(message_of([&] { data.batch(0, 0, 2, 5); }),
            "the training text has 5 tokens, but one window of length 5 needs 6: use more text or a shorter "
            "length");
  EXPECT_EQ(message_of([&] { data.batch(0, 0, 0, 5); }),
            "a batch of 0 rows of length 5 was asked for, expected 1 and more");
  EXPECT_EQ(message_of([&] { Dataset::masked_text(path(), Tokenizer::characters("tiny"), options()); }),
            "masked text needs a tokenizer with a mask token, and this one has none");
}

TEST_F(DatasetTest, Describes) {
  const std::string text_line = text().describe();
  EXPECT_EQ(text_line.rfind(path() + ": 1 file, ", 0), 0u) << text_line;
  EXPECT_EQ(Dataset::synthetic("sort").describe(), "synthetic task 'sort'");
  EXPECT_EQ(text().vocab_size(), 259);
}

std::vector<int32_t> input_of(const Batch& batch, int64_t row) {
  std::vector<int32_t> input;
  for (const int32_t id : row_of(batch.ids, row, batch.length)) {
    if (id == 2) break;
    input.push_back(id);
  }
  return input;
}

TEST(Synthetic, RowsAreWhatTheySay) {
  const std::map<std::string, std::function<void(std::vector<int32_t>&)>> tasks = {
      {"copy", [](auto&) {}},
      {"reverse", [](auto& v) { std::reverse(v.begin(), v.end()); }},
      {"sort", [](auto& v) { std::sort(v.begin(), v.end()); }}};
  ASSERT_EQ(tasks.size(), Dataset::synthetic_names().size());
  for (const auto& [name, answer] : tasks) {
    const Dataset data = Dataset::synthetic(name, {.seed = 4});
    EXPECT_EQ(data.kind(), DatasetKind::sequence_to_sequence);
    const Batch batch = data.batch(0, 0, 200, 12);
    check_shape(batch, 200, 12);
    std::set<size_t> lengths;
    for (int64_t row = 0; row < 200; ++row) {
      std::vector<int32_t> expected = input_of(batch, row);
      lengths.insert(expected.size());
      answer(expected);
      std::vector<int32_t> shifted = {1};
      shifted.insert(shifted.end(), expected.begin(), expected.end());
      expected.push_back(2);
      const auto targets = row_of(batch.targets, row, 12), decoder = row_of(batch.decoder_ids, row, 12);
      ASSERT_TRUE(std::equal(expected.begin(), expected.end(), targets.begin()));
      ASSERT_TRUE(std::equal(shifted.begin(), shifted.end(), decoder.begin()));
      for (size_t t = 0; t < 12; ++t) {
        const size_t i = static_cast<size_t>(row) * 12 + t;
        EXPECT_EQ(batch.mask[i], t < expected.size());
        EXPECT_EQ(batch.decoder_mask[i], t < expected.size());
        const bool padded = batch.ids[i] == 0 && batch.decoder_ids[i] == 0 && targets[t] == kIgnoreTarget;
        EXPECT_TRUE(t < expected.size() || padded);
      }
    }
    EXPECT_EQ(lengths, (std::set<size_t>{3, 4, 5, 6, 7, 8, 9, 10, 11}));
  }
}

TEST(Synthetic, SplitsShareNoInput) {
  const Dataset data = Dataset::synthetic("reverse", {.seed = 1, .min_symbols = 2, .examples = 300});
  std::map<std::vector<int32_t>, std::set<int>> seen;
  for (int64_t step = 0; step < 40; ++step) {
    const Batch batch = data.batch(step, 0, 100, 4);
    for (int64_t row = 0; row < 100; ++row) seen[input_of(batch, row)].insert(0);
  }
  int64_t rows = 0;
  for (const Split split : {Split::validation, Split::test}) {
    ASSERT_EQ(data.evaluation_batches(split, 128, 4), 3);
    for (int64_t i = 0; i < 3; ++i) {
      const Batch batch = data.evaluation_batch(split, i, 128, 4);
      rows += batch.rows;
      for (int64_t row = 0; row < batch.rows; ++row)
        seen[input_of(batch, row)].insert(static_cast<int>(split));
    }
  }
  EXPECT_EQ(rows, 600);
  for (const auto& [input, splits] : seen) EXPECT_EQ(splits.size(), 1u);
}

TEST(Synthetic, IsAFunctionOfSeedStepAndRow) {
  const Dataset data = Dataset::synthetic("sort", {.seed = 9});
  const Batch six = data.batch(5, 0, 6, 10);
  for (int64_t row = 0; row < 6; ++row) {
    EXPECT_EQ(data.batch(5, row, 1, 10).ids, row_of(six.ids, row, 10));
    EXPECT_EQ(data.batch(5, row / 2, 2, 10).targets[static_cast<size_t>(row % 2) * 10],
              six.targets[static_cast<size_t>(row) * 10]);
  }
  EXPECT_NE(data.batch(6, 0, 6, 10).ids, six.ids);
  EXPECT_NE(Dataset::synthetic("sort", {.seed = 8}).batch(5, 0, 6, 10).ids, six.ids);
  EXPECT_EQ(data.evaluation_batch(Split::test, 1, 8, 10).ids,
            data.evaluation_batch(Split::test, 1, 8, 10).ids);
}

TEST(Synthetic, Refusals) {
  const auto name = message_of([] { Dataset::synthetic("revese"); });
  EXPECT_EQ(name.rfind("there is no synthetic task 'revese', expected one of copy, reverse, sort", 0), 0u)
      << name;
  EXPECT_NE(name.find("did you mean"), std::string::npos);
  EXPECT_EQ(message_of([] { Dataset::synthetic("copy").batch(0, 0, 1, 3); }),
            "inputs of 3 symbols and more with an end token do not fit a length of 3");
  EXPECT_THROW(Dataset::synthetic("copy", {.min_symbols = 0}), Error);
}

TEST(DefaultCorpus, IsAFolderOfTextOrAnErrorThatSaysWhatToInstall) {
  try {
    const std::string path = default_corpus();
    EXPECT_TRUE(is_folder(path)) << path;
    EXPECT_FALSE(list_files(path).empty());
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("apt install fortunes"), std::string::npos) << error.what();
  }
}

class JsonLines : public DatasetTest {
 protected:
  std::string lines_path() const { return folder_ / "lines.jsonl"; }
  Dataset load(const std::string& lines, double held_out = 0) const {
    write_file_atomically(lines_path(), lines);
    TextOptions o = options();
    o.held_out = held_out;
    return Dataset::text(lines_path(), Tokenizer::bytes(), o);
  }
  // Of each document of a batch, its inputs and, after a bar, its targets, padding left out.
  static std::multiset<std::string> documents(const Batch& b) {
    std::multiset<std::string> found;
    const auto letter = [](int32_t id) { return id == 256 ? '$' : id < 0 ? '.' : static_cast<char>(id); };
    for (int64_t i = 0; i < b.rows * b.length; ++i) {
      if (!b.mask[i] || b.starts[i] != i % b.length) continue;
      std::string inputs, targets;
      for (int64_t j = i; j < (i / b.length + 1) * b.length && b.mask[j] && b.starts[j] == b.starts[i]; ++j) {
        inputs += letter(b.ids[j]);
        targets += letter(b.targets[j]);
      }
      found.insert(inputs + "|" + targets);
    }
    return found;
  }
};

TEST_F(JsonLines, DocumentsArePackedWithTargetsOfTheCompletion) {
  const Dataset data = load(
      "{\"text\": \"abc\"}\n\n{\"prompt\": \"qu\", \"completion\": \"xy\"}\n"
      "{\"completion\": \"z\", \"prompt\": \"\"}\n{\"text\": \"hi\"}");
  EXPECT_EQ(data.kind(), DatasetKind::language_model);
  ASSERT_EQ(data.evaluation_batches(Split::train, 8, 6), 1);
  const Batch all = data.evaluation_batch(Split::train, 0, 8, 6);
  check_shape(all, all.rows, 6);
  EXPECT_EQ(documents(all), (std::multiset<std::string>{"abc|bc$", "quxy|.xy$", "z|$", "hi|i$"}));
  EXPECT_LE(all.rows, 3);
  EXPECT_EQ(data.token_count(Split::train), 4 + 5 + 2 + 3);
  EXPECT_EQ(data.byte_count(Split::train), 3 + 2 + 1 + 2);
  // Row by row the same documents.
  std::multiset<std::string> rows;
  for (int64_t i = 0; i < all.rows; ++i) rows.merge(documents(data.evaluation_batch(Split::train, i, 1, 6)));
  EXPECT_EQ(rows, documents(all));
}

TEST_F(JsonLines, TrainingRowsAreAFunctionOfStepAndRow) {
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += "{\"text\": \"text " + std::to_string(i) + "\"}\n";
  const Dataset data = load(lines, 0.25);
  const Batch whole = data.batch(3, 0, 4, 30), half = data.batch(3, 1, 2, 30);
  check_shape(whole, 4, 30);
  EXPECT_TRUE(std::equal(half.ids.begin(), half.ids.end(), whole.ids.begin() + 60));
  EXPECT_TRUE(std::equal(half.starts.begin(), half.starts.end(), whole.starts.begin() + 60));
  EXPECT_NE(data.batch(4, 0, 4, 30).ids, whole.ids);
  std::set<std::string> seen;
  for (int64_t step = 0; step < 50; ++step) {
    for (const std::string& d : documents(data.batch(step, 0, 4, 30))) seen.insert(d);
  }
  EXPECT_EQ(seen.size(), 30u) << "every document of the training part, and no other";
  const auto held = documents(data.evaluation_batch(Split::validation, 0, 100, 30));
  EXPECT_EQ(held.size(), 10u);
  for (const std::string& d : held) EXPECT_FALSE(seen.contains(d)) << d;
}

TEST_F(JsonLines, FaultsNameTheLine) {
  const auto refused = [&](const std::string& lines) { return message_of([&] { load(lines); }); };
  for (const char* bad : {"{\"text\": 3}", "{\"text\": \"a\", \"more\": 1}", "[1]", "{\"prompt\": \"a\"}",
                          "{", "{\"prompt\": \"ab\", \"completion\": 1}"}) {
    EXPECT_NE(refused(std::string("{\"text\": \"good\"}\n") + bad).find("line 2"), std::string::npos) << bad;
  }
  EXPECT_NE(refused("\n\n").find("no line"), std::string::npos);
  const Dataset data = load("{\"text\": \"a\"}\n{\"text\": \"0123456789\"}\n");
  const std::string longer = message_of([&] { data.batch(0, 0, 1, 9); });
  EXPECT_NE(longer.find("line 2 takes a row of 10 tokens, and rows have 9"), std::string::npos) << longer;
  EXPECT_EQ(data.batch(0, 0, 1, 10).rows, 1);
  EXPECT_NE(
      message_of([&] { Dataset::masked_text(lines_path(), Tokenizer::bytes(), options()); }).find("decoders"),
      std::string::npos);
}

}  // namespace
}  // namespace plumb

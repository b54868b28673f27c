#include "model/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/test_support.h"
#include "nn/parameter.h"

namespace plumb {
namespace {

class Safetensors : public testing::Test {
 protected:
  std::string path() const { return folder_ / "x.safetensors"; }

  void write(const std::string& bytes) const { std::ofstream(path(), std::ios::binary) << bytes; }
  // A file with this header and `data` bytes.
  void write(const std::string& header, size_t data) const {
    write(with_length(header.size()) + header + std::string(data, '\1'));
  }
  static std::string with_length(uint64_t length) {
    return std::string(reinterpret_cast<const char*>(&length), sizeof(length));
  }

  // The reason for which the file on disk is refused.
  std::string refusal(ErrorKind kind = ErrorKind::file) const {
    try {
      const SafetensorsFile file(path());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind) << error.what();
      EXPECT_NE(std::string(error.what()).find(path()), std::string::npos) << error.what();
      return error.what();
    }
    return "accepted";
  }
  void expect_refused(const std::string& header, size_t data, const std::string& reason) const {
    write(header, data);
    const std::string got = refusal();
    EXPECT_NE(got.find(reason), std::string::npos) << header << "\n" << got;
    const bool names_one = header.find("\"t\"") != header.npos;
    EXPECT_TRUE(!names_one || got.find("\"t\"") != got.npos) << got;
  }

  TempFolder folder_;
};

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return "{\"t\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}";
}

TEST_F(Safetensors, B59_DeclaredSizeDtypeAndRangeDisagree) {
  expect_refused(one("F64", "[4]", "[0,16]"), 16, "takes 32 bytes, but its data_offsets name 16");
  expect_refused(one("F32", "[1000,1000]", "[0,4]"), 4, "takes 4000000 bytes");
  expect_refused(one("F32", "[2]", "[8,0]"), 8, "run backwards");
  expect_refused(one("F32", "[2]", "[-4,4]"), 8, "-4");
  expect_refused(one("F32", "[0]", "[0]"), 0, "not two numbers");
  expect_refused(one("F32", "[2]", "[0,4,8]"), 8, "not two numbers");
  expect_refused(one("F32", "[2]", "[0,1e30]"), 8, "expected a whole number");
  expect_refused(one("U8", "[4294967296,4294967296]", "[0,0]"), 0, "beyond 64 bits");
  expect_refused(one("F32", "[9223372036854775807,2]", "[0,8]"), 8, "beyond 64 bits");
  expect_refused(one("F32", "[18446744073709551615]", "[0,8]"), 8, "more than any file holds");
  expect_refused(one("F32", "[-2]", "[0,8]"), 8, "-2");
  expect_refused(one("F32", "[2.5]", "[0,8]"), 8, "2.5");
  expect_refused(one("F32", "[2]", "[0,8]"), 7, "cut short");
  expect_refused(one("F32", "2", "[0,8]"), 8, "shape that is not a list");
  expect_refused("{\"t\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "has no data_offsets");
  expect_refused("{\"t\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "has no dtype");
  expect_refused("{\"t\":3}", 0, "not an object");
}

TEST_F(Safetensors, B59_UnknownDtypeIsNamed) {
  write(one("F8_E4M3", "[4]", "[0,4]"), 4);
  const std::string got = refusal(ErrorKind::unsupported);
  EXPECT_NE(got.find("F8_E4M3"), std::string::npos) << got;
  EXPECT_NE(got.find("\"t\""), std::string::npos) << got;
}

TEST_F(Safetensors, B59_FileCutAnywhere) {
  const std::string header = one("F32", "[2]", "[0,8]");
  const std::string whole = with_length(header.size()) + header + std::string(8, '\1');
  for (size_t size = 0; size < whole.size(); ++size) {
    write(whole.substr(0, size));
    EXPECT_NE(refusal(), "accepted") << size;
  }
  write(whole);
  EXPECT_EQ(refusal(), "accepted");
}

TEST_F(Safetensors, RangesNeitherOverlapNorLeaveHoles) {
  const auto two = [](const std::string& a, const std::string& b) {
    return "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" + a +
           "},\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" + b + "}}";
  };
  expect_refused(two("[0,4]", "[2,6]"), 6, "\"a\" and \"b\" share bytes");
  expect_refused(two("[0,4]", "[0,4]"), 4, "share bytes");
  expect_refused(two("[0,4]", "[5,9]"), 9, "1 bytes before tensor \"b\"");
  expect_refused(two("[0,4]", "[4,8]"), 9, "1 bytes at the end");
  write(two("[4,8]", "[0,4]"), 8);
  EXPECT_EQ(refusal(), "accepted");
  write("{\"a\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[0,0]}}", 0);
  EXPECT_EQ(SafetensorsFile(path()).tensor("a", DType::f32).shape(), Shape({0, 3}));
}

TEST_F(Safetensors, B60_HeaderLength) {
  const std::string rest(92, 'x');
  for (const uint64_t length : {~uint64_t{0}, uint64_t{1} << 63, uint64_t{100}, uint64_t{93}, uint64_t{0}}) {
    write(with_length(length) + rest);
    EXPECT_NE(refusal().find(length == 0 ? "no bytes" : "cut short"), std::string::npos) << length;
  }
  write(with_length(92) + rest);  // the whole rest of the file, and no JSON
  EXPECT_NE(refusal().find("does not begin"), std::string::npos);
}

TEST_F(Safetensors, B60_HeaderText) {
  write("{}", 0);
  EXPECT_TRUE(SafetensorsFile(path()).entries().empty());
  write("{}   ", 0);
  EXPECT_TRUE(SafetensorsFile(path()).entries().empty());
  expect_refused("{\"a\xff\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}}", 4, "");
  EXPECT_NE(refusal(), "accepted");
  expect_refused("[]", 0, "does not begin with");
  expect_refused(" {}", 0, "does not begin with");
  expect_refused("{}{}", 0, "not valid JSON");
  const std::string entry = "{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]}";
  expect_refused("{\"t\":" + entry + ",\"t\":" + entry + "}", 4, "given twice");
  expect_refused("{\"__metadata__\":{\"a\":1}}", 0, "not a text");
  expect_refused("{\"__metadata__\":[]}", 0, "not an object");
}

TEST_F(Safetensors, B60_HeaderBeyondTheCap) {
  write(with_length(kMaxSafetensorsHeader + 1));
  std::filesystem::resize_file(path(), 8 + kMaxSafetensorsHeader + 1);  // sparse
  EXPECT_NE(refusal().find("more than the 100000000"), std::string::npos) << refusal();
}

// Any damage to the header is an error or another valid file, never more.
TEST_F(Safetensors, RandomDamage) {
  write_safetensors(path(), {{"a", Tensor::of<float>({2, 2}, {1, 2, 3, 4}), DType::f32},
                             {"b", Tensor::of<int64_t>({1}, {7}), DType::i64}});
  std::ifstream in(path(), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  std::mt19937 random(5);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = whole;
    for (int n = 0; n < 1 + i % 3; ++n)
      damaged[random() % (whole.size() - 24)] = "0123456789[]{},:\"-.eF\xff"[random() % 23];
    write(damaged);
    try {
      const SafetensorsFile file(path());
      for (const auto& entry : file.entries()) file.tensor(entry).clone();
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST_F(Safetensors, WrittenAndReadIsTheSame) {
  const std::vector<SavedTensor> tensors{{"bytes", Tensor::of<uint8_t>({3}, {1, 2, 255}), DType::u8},
                                         {"whole", Tensor::of<int64_t>({2}, {-1, INT64_MAX}), DType::i64},
                                         {"empty", Tensor::empty({0, 2}), DType::f32},
                                         {"scalar", Tensor::of<float>({}, {-0.0f}), DType::f32},
                                         {"na\"me\n", Tensor::of<float>({2, 1}, {1.5f, -2e-40f}), DType::f32},
                                         {"wide", Tensor::of<double>({1}, {1e300}), DType::f64}};
  write_safetensors(path(), tensors, {{"format", "pt"}, {"note", "a b"}});
  const SafetensorsFile file(path());
  EXPECT_EQ(file.metadata().at("note"), "a b");
  ASSERT_EQ(file.entries().size(), tensors.size());
  for (const SavedTensor& t : tensors) {
    const Tensor got = file.tensor(t.name, t.stored);
    ASSERT_EQ(got.shape(), t.value.shape()) << t.name;
    EXPECT_EQ(std::memcmp(got.raw(), t.value.raw(), got.bytes()), 0) << t.name;
    const char* in_file = static_cast<const char*>(got.raw());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(in_file) % dtype_size(t.stored), 0u) << t.name;
  }
  EXPECT_THROW(file.tensor("wide", DType::f32), Error);
  EXPECT_THROW(file.tensor("absent", DType::f32), Error);
  std::ifstream first(path(), std::ios::binary);
  const std::string before((std::istreambuf_iterator<char>(first)), {});
  write_safetensors(path(), tensors, {{"format", "pt"}, {"note", "a b"}});
  std::ifstream second(path(), std::ios::binary);
  EXPECT_EQ(before, std::string((std::istreambuf_iterator<char>(second)), {}));
}

TEST_F(Safetensors, MisalignedDataIsCopied) {
  const std::string header = one("F32", "[2]", "[0,8]");
  for (size_t pad = 0; pad < 8; ++pad) {
    const std::string padded = header + std::string(pad, ' ');
    const float values[2] = {1.25f, -3.0f};
    write(with_length(padded.size()) + padded + std::string(reinterpret_cast<const char*>(values), 8));
    const SafetensorsFile file(path());
    const Tensor t = file.tensor("t", DType::f32);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(t.raw()) % alignof(float), 0u);
    EXPECT_EQ(t.f32()[0], 1.25f);
    EXPECT_EQ(t.f32()[1], -3.0f);
  }
}

TEST_F(Safetensors, SixteenBitFormats) {
  const Tensor values = Tensor::of<float>({2, 3}, {1.0f, -0.333333f, 65504.0f, 0.0f, 1e-6f, -7.0f});
  write_safetensors(path(), {{"h", values, DType::f16}, {"b", values, DType::bf16}});
  const SafetensorsFile file(path());
  const Tensor half = owned_f32(file.tensor("h", DType::f16)),
               brain = owned_f32(file.tensor("b", DType::bf16));
  for (int64_t i = 0; i < 6; ++i) {
    EXPECT_EQ(half.f32()[i], to_float(to_f16(values.f32()[i])));
    EXPECT_EQ(brain.f32()[i], to_float(to_bf16(values.f32()[i])));
  }
  const Tensor large = Tensor::of<float>({1}, {70000.0f});
  const std::string message = error_of(ErrorKind::numeric, [&] {
    write_safetensors(path(), {{"large", large, DType::f16}});
  });
  EXPECT_NE(message.find("\"large\""), std::string::npos) << message;
  EXPECT_EQ(SafetensorsFile(path()).entries().size(), 2u) << "the old file stays";
}

TEST_F(Safetensors, ValuesOutliveTheReader) {
  write_safetensors(path(), {{"t", Tensor::of<float>({1}, {4.0f}), DType::f32}});
  Tensor t;
  {
    const SafetensorsFile file(path());
    t = file.tensor("t", DType::f32);
  }
  std::filesystem::remove(path());
  EXPECT_EQ(t.f32()[0], 4.0f);
}

}  // namespace
}  // namespace plumb

#include "model/torch_file.h"

#include <gtest/gtest.h>

#include <fstream>

#include "base/test_support.h"
#include "model/pickle.h"
#include "model/torch_archive.h"

namespace plumb {
namespace {

using pickled::tensor;
using Members = std::vector<std::pair<std::string, std::string>>;

std::string floats(int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += bytes_of(static_cast<float>(i));
  return bytes;
}

class Torch : public testing::Test {
 protected:
  std::string path() const { return folder_ / "pytorch_model.bin"; }
  void write(const std::string& bytes) const { std::ofstream(path(), std::ios::binary) << bytes; }
  // Storages "0", of 6 f32, and "1", of 2 i64.
  static Members members(const std::string& pickle) {
    return {{"archive/data.pkl", pickle},
            {"archive/byteorder", "little"},
            {"archive/data/0", floats(6)},
            {"archive/data/1", bytes_of<int64_t>(-7) + bytes_of<int64_t>(8)},
            {"archive/version", "3\n"}};
  }
  void write_pickle(const std::string& pickle) const { write(zip_of(members(pickle))); }

  std::string refusal(ErrorKind kind = ErrorKind::file) const {
    const std::string got = error_of(kind, [&] { const TorchFile file(path()); });
    EXPECT_NE(got.find(path()), got.npos) << got;
    return got;
  }
  void expect_refused(const std::string& pickle, const std::string& reason,
                      ErrorKind kind = ErrorKind::file) const {
    write_pickle(pickle);
    const std::string got = refusal(kind);
    EXPECT_NE(got.find(reason), got.npos) << got;
  }
  void expect_refused(const pickled::View& view, const std::string& reason,
                      ErrorKind kind = ErrorKind::file) const {
    expect_refused(pickled::dict({{"a.weight", tensor(view)}}), reason, kind);
    EXPECT_NE(refusal(kind).find("\"a.weight\""), std::string::npos);
  }

  TempFolder folder_;
};

std::vector<float> values(const Tensor& t) {
  return {t.f32(), t.f32() + t.numel()};
}

TEST_F(Torch, TensorsAreViewsOfStorages) {
  write_pickle(pickled::dict({{"b", tensor({"FloatStorage", "0", 6, 1, {2, 2}, {2, 1}})},
                              {"a", tensor({"FloatStorage", "0", 6, 0, {3, 2}, {1, 3}})},
                              {"c", tensor({"LongStorage", "1", 2, 0, {2}, {1}})},
                              {"every second", tensor({"FloatStorage", "0", 6, 1, {3}, {2}})},
                              {"none", tensor({"FloatStorage", "0", 6, 6, {0, 4}, {4, 1}})},
                              {"one", tensor({"FloatStorage", "0", 6, 5, {}, {}})}}));
  const TorchFile file(path());
  ASSERT_EQ(file.entries().size(), 6u);
  EXPECT_EQ(file.entries()[0].name, "a");
  EXPECT_EQ(values(file.tensor("b", DType::f32)), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(file.find("b")->shape, (Shape{2, 2}));
  EXPECT_EQ(values(file.tensor("a", DType::f32)), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(values(file.tensor("every second", DType::f32)), (std::vector<float>{1, 3, 5}));
  EXPECT_EQ(file.tensor("none", DType::f32).numel(), 0);
  EXPECT_EQ(values(file.tensor("one", DType::f32)), (std::vector<float>{5}));
  EXPECT_EQ(file.tensor("c", DType::i64).data<int64_t>()[0], -7);
  EXPECT_EQ(file.find("d"), nullptr);
}

TEST_F(Torch, AlignedTensorsLieInTheMappedFile) {
  for (int pad = 0; pad < 4; ++pad) {
    Members list = members(pickled::dict({{"a", tensor({"FloatStorage", "0", 6, 0, {6}, {1}})}}));
    list.insert(list.begin() + 2, {"archive/x", std::string(pad, 'x')});
    write(zip_of(list));
    const TorchFile file(path());
    const uint64_t begin = file.find("a")->begin;
    const Tensor t = file.tensor("a", DType::f32), again = file.tensor("a", DType::f32);
    EXPECT_EQ(t.raw() == again.raw(), begin % 4 == 0);
    EXPECT_EQ(values(t), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  }
}

TEST_F(Torch, ParametersAndAttributesOfTheDict) {
  const std::string inner = tensor({"FloatStorage", "0", 6, 0, {6}, {1}});
  const std::string parameter = pickled::global("torch._utils", "_rebuild_parameter") + "(" + inner + "\x88" +
                                pickled::global("collections", "OrderedDict") + ")RtR";
  const std::string attributes = "}" + pickled::text("_metadata") + "}sb";
  write_pickle("\x80\2" + pickled::global("collections", "OrderedDict") + ")Rq\1(" + pickled::text("a") +
               parameter + "u" + attributes + ".");
  EXPECT_EQ(TorchFile(path()).tensor("a", DType::f32).numel(), 6);
}

TEST_F(Torch, ViewsOutsideTheirStorage) {
  const std::string beyond = "reaches beyond its storage of 6 numbers";
  expect_refused({"FloatStorage", "0", 6, 0, {7}, {1}}, beyond);
  expect_refused({"FloatStorage", "0", 6, 3, {2, 2}, {2, 1}}, beyond);
  expect_refused({"FloatStorage", "0", 6, 7, {0}, {1}}, beyond);
  expect_refused({"FloatStorage", "0", 6, 0, {2, 2}, {INT32_MAX, 1}}, beyond);
  expect_refused({"FloatStorage", "0", 6, 0, {INT32_MAX, INT32_MAX, INT32_MAX}, {INT32_MAX, INT32_MAX, 1}},
                 beyond);
  expect_refused({"FloatStorage", "0", 6, 0, {INT32_MAX, INT32_MAX, INT32_MAX, 0}, {1, 1, 1, 1}}, beyond);
  expect_refused({"FloatStorage", "0", 6, 0, {INT32_MAX, INT32_MAX}, {0, 0}}, "repeats numbers",
                 ErrorKind::unsupported);
  expect_refused({"FloatStorage", "0", 6, -1, {2}, {1}}, "whole numbers");
  expect_refused({"FloatStorage", "0", 6, 0, {-2}, {1}}, "whole numbers");
  expect_refused({"FloatStorage", "0", 6, 0, {2}, {-1}}, "whole numbers");
  expect_refused({"FloatStorage", "0", 6, 0, {2}, {1, 1}}, "another number of strides");
}

TEST_F(Torch, StoragesThatTheFileDoesNotHold) {
  expect_refused({"FloatStorage", "2", 6, 0, {6}, {1}}, "in the storage \"2\", which the file lacks");
  expect_refused({"FloatStorage", "0", 7, 0, {6}, {1}}, "7 f32 numbers, which has 24 bytes");
  expect_refused({"DoubleStorage", "0", 6, 0, {6}, {1}}, "6 f64 numbers, which has 24 bytes");
  expect_refused({"FloatStorage", "0", -6, 0, {6}, {1}}, "whole numbers");
  expect_refused({"FloatStorage", "../0", 6, 0, {6}, {1}}, "which the file lacks");
}

TEST_F(Torch, WhatWeightsDoNotNeedIsRefusedByName) {
  const std::string call = "(" + pickled::text("echo") + "tR";
  for (const auto& [module, name] : Members{{"os", "system"},
                                            {"posix", "system"},
                                            {"builtins", "eval"},
                                            {"torch", "CharStorage"},
                                            {"torch._utils", "_rebuild_sparse_tensor"}}) {
    expect_refused("\x80\2" + pickled::global(module, name) + call + ".",
                   "names \"" + module + "." + name + "\"", ErrorKind::unsupported);
  }
  expect_refused(std::string("\x80\2(") + "i" + "os\nsystem\n.", "opcode 0x69", ErrorKind::unsupported);
  expect_refused("\x80\4}.", "protocol 4", ErrorKind::unsupported);
}

TEST_F(Torch, PicklesOfSomethingElse) {
  expect_refused("\x80\2].", "not of a dict");
  expect_refused(pickled::dict({{"a", pickled::integer(3)}}), "\"a\" is something else than a tensor");
  expect_refused(pickled::dict({{"model", "}"}}), "\"model\" is something else than a tensor");
  expect_refused("\x80\2}(K\1K\2u.", "not a name");
  const std::string t = tensor({"FloatStorage", "0", 6, 0, {6}, {1}});
  expect_refused(pickled::dict({{"a", t}, {"a", t}}), "\"a\" is there twice");
  expect_refused(pickled::dict({{"a", pickled::global("torch._utils", "_rebuild_tensor_v2") + ")R"}}),
                 "something else");
}

TEST_F(Torch, DamagedPickles) {
  for (const std::string pickle :
       {"", "\x80", "\x80\2", "\x80\2}", "\x80\2X\xff\xff\xff\xff", "\x80\2ctorch", "\x80\2\x8a\xff"})
    expect_refused(pickle, "ends too early");
  expect_refused("\x80\2.", "empty stack");
  expect_refused("\x80\2(u.", "empty stack");
  expect_refused("\x80\2}(.", "empty stack");
  expect_refused("\x80\2t.", "a mark that it did not set");
  expect_refused("\x80\2h\1.", "did not keep");
  expect_refused("\x80\2}(K\1u.", "without its value");
  expect_refused("\x80\2NK\1K\2s.", "adds a key to something else");
  expect_refused("\x80\2NNR.", "can't be called");
  expect_refused("\x80\2\x8a\x09" + std::string(9, '\1') + ".", "beyond 64 bits");
  expect_refused("\x80\2X\1" + std::string(3, '\0') + "\xff.", "not UTF-8");
  expect_refused("\x80\2" + std::string(kMaxPickleDepth + 1, '(') + ".", "nests deeper");
  // A list that holds itself, and a bomb of tuples, cost what they take to write.
  expect_refused("\x80\2]q\1h\1a.", "not of a dict");
  std::string bomb = "\x80\2}";
  for (int i = 0; i < 60; ++i) bomb += "q\1h\1\x86";
  expect_refused(bomb + ".", "not of a dict");
}

TEST_F(Torch, LongNumbers) {
  const auto of = [](const std::string& bytes) {
    const Pickle p = read_pickle("\x80\2\x8a" + bytes + ".", {}, "p");
    return p.values[p.root].integer;
  };
  EXPECT_EQ(of(std::string(1, '\0')), 0);
  EXPECT_EQ(of(std::string("\5") + std::string(4, '\0') + "\1"), int64_t{1} << 32);
  EXPECT_EQ(of("\1\xff"), -1);
  EXPECT_EQ(of("\2\xff\x7f"), 32767);
}

TEST_F(Torch, DamagedArchives) {
  const std::string whole =
      zip_of(members(pickled::dict({{"a", tensor({"FloatStorage", "0", 6, 0, {6}, {1}})}})));
  for (size_t cut = 0; cut < whole.size(); cut += 5) {
    write(whole.substr(0, cut));
    refusal();
  }
  write("");
  EXPECT_NE(refusal().find("not a file of PyTorch"), std::string::npos);
  write("\x80\2\x8a\x0al\xfc\x9c");
  EXPECT_NE(refusal(ErrorKind::unsupported).find("before 1.6"), std::string::npos);
  const size_t directory = whole.find("PK\1\2");
  const auto changed = [&](size_t at, const std::string& bytes) {
    write(std::string(whole).replace(directory + at, bytes.size(), bytes));
  };
  changed(10, std::string("\10\0", 2));
  EXPECT_NE(refusal(ErrorKind::unsupported).find("compressed"), std::string::npos);
  changed(8, std::string("\1\0", 2));
  EXPECT_NE(refusal(ErrorKind::unsupported).find("encrypted"), std::string::npos);
  changed(20, "\xff\xff\xff\xfe\xff\xff\xff\xfe");
  EXPECT_NE(refusal().find("does not lie in the file"), std::string::npos);
  changed(24, "\1");
  EXPECT_NE(refusal().find("two sizes"), std::string::npos);
  changed(42, "\1");
  EXPECT_NE(refusal().find("not where the directory says"), std::string::npos);
  changed(46, "X");
  EXPECT_NE(refusal().find("not where the directory says"), std::string::npos);
}

TEST_F(Torch, ArchivesOfSomethingElse) {
  const auto expect = [&](const Members& list, const std::string& reason, ErrorKind kind = ErrorKind::file) {
    write(zip_of(list));
    const std::string got = refusal(kind);
    EXPECT_NE(got.find(reason), got.npos) << got;
  };
  const Members good = members(pickled::dict({}));
  expect({{"archive/version", "3"}}, "holds no \"archive/data.pkl\"");
  expect({{"version", "3"}}, "outside the one folder");
  expect({{"a/data.pkl", "."}, {"b/data.pkl", "."}}, "outside the one folder");
  expect({{"a/data.pkl", "."}, {"a/data.pkl", "."}}, "twice");
  expect({{"a/constants.pkl", "."}, {"a/data.pkl", "."}}, "TorchScript", ErrorKind::unsupported);
  expect({{"a/byteorder", "big"}, {"a/data.pkl", "."}}, "byte order \"big\"", ErrorKind::unsupported);
  write(zip_of(good));
  EXPECT_TRUE(TorchFile(path()).entries().empty());
}

}  // namespace
}  // namespace plumb

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/errors.h"
#include "base/files/input_file.h"
#include "tests/checkpoint/safetensors_bytes.h"
#include "job/checkpoint/safetensors_header.h"

namespace dotresize {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

SafetensorsHeader parse(const std::string& file) {
  return parse_safetensors_header(file.data(), file.size(), file.size(), "x.safetensors");
}

std::string fault_of(const std::string& file) {
  try {
    parse(file);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(SafetensorsHeader, HoldsNamesDtypesShapesAndOffsetsWithinTheFile) {
  const std::string json = R"({"__metadata__":{"format":"pt"},)"
                           R"("b":{"dtype":"F32","shape":[2,3],"data_offsets":[2,26]},)"
                           R"("a":{"data_offsets":[0,2],"shape":[1],"dtype":"BF16"}}  )";
  const SafetensorsHeader header = parse(safetensors_bytes(json, 26));
  const uint64_t data = 8 + json.size();
  ASSERT_EQ(header.tensors.size(), 2u);
  const TensorInfo& b = header.tensors.at("b");
  EXPECT_EQ(b.dtype, "F32");
  EXPECT_THAT(b.shape, ElementsAre(2, 3));
  EXPECT_EQ(b.begin, data + 2);
  EXPECT_EQ(b.end, data + 26);
  EXPECT_EQ(header.tensors.at("a").begin, data);
  EXPECT_THAT(header.metadata,
              ElementsAre(std::pair<const std::string, std::string>("format", "pt")));
}

TEST(SafetensorsHeader, AcceptsEmptyTensorsScalarsAndNoTensors) {
  EXPECT_TRUE(parse(safetensors_bytes("{}", 0)).tensors.empty());
  const auto header =
      parse(safetensors_bytes(R"({"none":{"dtype":"F32","shape":[0,7],"data_offsets":[0,0]},)"
                              R"("scalar":{"dtype":"F64","shape":[],"data_offsets":[0,8]},)"
                              R"("last":{"dtype":"U8","shape":[0],"data_offsets":[8,8]}})",
                              8));
  EXPECT_EQ(header.tensors.size(), 3u);
  EXPECT_TRUE(header.tensors.at("scalar").shape.empty());
}

struct Hostile {
  const char* name;
  std::string file;
  const char* message;
};

void PrintTo(const Hostile& hostile, std::ostream* out) { *out << hostile.name; }

/// Returns a file with one tensor "t" that has these entry fields.
std::string entry(const std::string& fields, uint64_t data_bytes) {
  return safetensors_bytes(R"({"t":{)" + fields + "}}", data_bytes);
}

/// Returns a file with one F32 tensor of 4 bytes and this shape.
std::string shape(const std::string& text) {
  return entry(R"("dtype":"F32","data_offsets":[0,4],"shape":)" + text, 4);
}

/// Returns a file with one F32 [1] tensor and these offsets.
std::string offsets(const std::string& text) {
  return entry(R"("dtype":"F32","shape":[1],"data_offsets":)" + text, 4);
}

std::string repeat(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

const char kU8[] = R"("dtype":"U8","shape":[4],"data_offsets":[0,4])";

/// Returns a file of 12 data bytes with two U8 [4] tensors, the second at these offsets.
std::string second_at(const std::string& offsets) {
  return safetensors_bytes(std::string(R"({"t":{)") + kU8 +
                               R"(},"u":{"dtype":"U8","shape":[4],"data_offsets":)" + offsets +
                               "}}",
                           12);
}

std::vector<Hostile> hostile_files() {
  const std::string good = entry(kU8, 4);
  return {
      {"Empty", "", "0 bytes, too short"},
      {"SevenBytes", std::string(7, '\1'), "7 bytes, too short"},
      {"LengthZero", length_bytes(0) + "{}", "header length 0: not a safetensors"},
      {"LengthPastEnd", length_bytes(3) + "{}", "header length 3 exceeds the file of 10 bytes"},
      {"LengthAboveLimit", length_bytes(100'000'001) + "{}", "limit of 100000000"},
      {"Length2To63", length_bytes(uint64_t{1} << 63) + "{}", "header length 9223372036854775808"},
      {"LengthAllOnes", length_bytes(~uint64_t{0}) + "{}", "header length 18446744073709551615"},
      {"Truncated", good.substr(0, good.size() - 5), "header length 53 exceeds the file of 60"},
      {"DataTruncated", good.substr(0, good.size() - 1),
       "lie beyond the end of the file, which has 3 bytes"},
      {"NotJson", safetensors_bytes("hello", 0), "must begin with '{'"},
      {"ByteOrderMark", safetensors_bytes("\xEF\xBB\xBF{}", 0), "must begin with '{'"},
      {"LeadingSpace", safetensors_bytes(" {}", 0), "must begin with '{'"},
      {"NulByte", safetensors_bytes(std::string("{}\0{", 4), 0), "holds a NUL byte"},
      {"Unclosed", safetensors_bytes(R"({"t":{)", 0), "not valid JSON"},
      {"TrailingText", safetensors_bytes("{}{}", 0), "unexpected '{'; expected end of input"},
      {"BadUtf8", safetensors_bytes("{\"\xC3(\":{}}", 0), "ill-formed UTF-8"},
      {"LoneSurrogate", safetensors_bytes(R"({"\ud800":{}})", 0), "surrogate"},
      {"Comment", safetensors_bytes("{/**/}", 0), "not valid JSON"},
      {"ArrayBomb", safetensors_bytes(R"({"t":)" + repeat("[", 100'000), 0), "unexpected an array"},
      {"ObjectBomb", safetensors_bytes(repeat(R"({"t":)", 100'000), 0), "unknown key"},
      {"ShapeBomb", shape(repeat("[", 100'000)), "key 'shape': unexpected an array"},
  };
}

std::vector<Hostile> hostile_entries() {
  return {
      {"EntryIsNumber", safetensors_bytes(R"({"t":1})", 0), "'t': unexpected the number 1"},
      {"EntryIsNull", safetensors_bytes(R"({"t":null})", 0), "'t': unexpected null"},
      {"EntryIsString", safetensors_bytes(R"({"t":"x"})", 0), "unexpected the string 'x'"},
      {"DuplicateName",
       safetensors_bytes(std::string(R"({"t":{)") + kU8 + R"(},"t":{)" + kU8 + "}}", 4),
       "tensor 't': the name appears twice"},
      {"DuplicateEscapedName",
       safetensors_bytes(std::string(R"({"t":{)") + kU8 + R"(},"\u0074":{)" + kU8 + "}}", 4),
       "the name appears twice"},
      {"DuplicateDtype", entry(R"("dtype":"U8",)" + std::string(kU8), 4),
       "key 'dtype': the key appears twice"},
      {"DuplicateShape", entry(R"("shape":[4],)" + std::string(kU8), 4), "'shape': the key"},
      {"DuplicateOffsets", entry(R"("data_offsets":[0,4],)" + std::string(kU8), 4),
       "'data_offsets': the key"},
      {"UnknownKey", entry(std::string(kU8) + R"(,"strides":[1])", 4), "'strides': unknown key"},
      {"NoDtype", entry(R"("shape":[4],"data_offsets":[0,4])", 4), "incomplete"},
      {"NoShape", entry(R"("dtype":"U8","data_offsets":[0,4])", 4), "incomplete"},
      {"NoOffsets", entry(R"("dtype":"U8","shape":[4])", 4), "incomplete"},
      {"UnknownDtype", entry(R"("dtype":"F31","shape":[4],"data_offsets":[0,4])", 4),
       "unknown dtype 'F31'"},
      {"EmptyDtype", entry(R"("dtype":"","shape":[4],"data_offsets":[0,4])", 4),
       "unknown dtype ''"},
      {"DtypeIsNumber", entry(R"("dtype":4,"shape":[4],"data_offsets":[0,4])", 4),
       "key 'dtype': unexpected the number 4"},
  };
}

std::vector<Hostile> hostile_sizes() {
  return {
      {"ShapeIsNumber", shape("1"), "key 'shape': unexpected the number 1"},
      {"ShapeIsObject", shape("{}"), "key 'shape': unexpected an object"},
      {"ShapeOfStrings", shape(R"(["1"])"), "unexpected the string '1'"},
      {"ShapeOfBooleans", shape("[true]"), "unexpected true"},
      {"NegativeDimension", shape("[-1]"), "unexpected the number -1"},
      {"FloatDimension", shape("[1.0]"), "unexpected the number '1.0'"},
      {"ExponentDimension", shape("[1e0]"), "unexpected the number '1e0'"},
      {"Dimension2To63", shape("[9223372036854775808]"), "beyond 2^63 - 1"},
      {"Dimension2To64", shape("[18446744073709551616]"), "'18446744073709551616'"},
      {"ProductOverflow", shape("[4294967296,4294967296]"), "more than 2^63 - 1 bytes"},
      {"ProductWrapsToFourBytes", shape("[9223372036854775807,9223372036854775807]"),
       "more than 2^63 - 1 bytes"},
      {"BytesOverflow", shape("[4611686018427387904]"), "more than 2^63 - 1 bytes"},
      {"EmptyButStridesOverflow", shape("[0,4294967296,4294967296]"), "more than 2^63 - 1 bytes"},
      {"TooManyDimensions", shape("[" + repeat("1,", 64) + "1]"), "more than 64 dimensions"},
      {"SizeMismatch", shape("[2]"), "hold 4 bytes, dtype and shape need 8"},
      {"OffsetsReversed", offsets("[4,0]"), "4 to 0 end before they begin"},
      {"OffsetsPastEnd", offsets("[1,5]"),
       "1 to 5 lie beyond the end of the file, which has 4 bytes"},
      {"OffsetsHuge", offsets("[18446744073709551612,18446744073709551615]"),
       "lie beyond the end of the file"},
      {"OneOffset", offsets("[0]"), "must be [begin, end]"},
      {"NoOffsetNumbers", offsets("[]"), "must be [begin, end]"},
      {"ThreeOffsets", offsets("[0,4,4]"), "more than two numbers"},
      {"NegativeOffset", offsets("[-4,0]"), "unexpected the number -4"},
      {"FloatOffset", offsets("[0,4.0]"), "unexpected the number '4.0'"},
      {"OffsetsAreString", offsets(R"("0,4")"), "unexpected the string '0,4'"},
      {"Overlap", second_at("[2,6]"), "tensor 'u': its data overlap another tensor's"},
      {"SameData", second_at("[0,4]"), "overlap"},
      {"Hole", second_at("[8,12]"), "a gap of 4 bytes precedes its data"},
      {"TrailingData", second_at("[4,8]"), "the last 4 bytes of the file belong to no tensor"},
  };
}

std::vector<Hostile> hostile_metadata() {
  return {
      {"MetadataNumber", safetensors_bytes(R"({"__metadata__":{"a":1}})", 0),
       "__metadata__, key 'a': unexpected the number 1"},
      {"MetadataNested", safetensors_bytes(R"({"__metadata__":{"a":{}}})", 0),
       "key 'a': unexpected an object"},
      {"MetadataIsString", safetensors_bytes(R"({"__metadata__":"a"})", 0),
       "__metadata__: unexpected the string 'a'"},
      {"MetadataDuplicateKey", safetensors_bytes(R"({"__metadata__":{"a":"","a":""}})", 0),
       "key 'a': the key appears twice"},
      {"MetadataTwice", safetensors_bytes(R"({"__metadata__":{},"__metadata__":{}})", 0),
       "__metadata__: the name appears twice"},
      {"ControlCharactersInName", safetensors_bytes(R"({"\u001b[2J":1})", 0), R"('\x1b[2J')"},
      {"LongName", safetensors_bytes("{\"" + std::string(100'000, 'n') + "\":1}", 0), "nnn...'"},
  };
}

class HostileHeader : public testing::TestWithParam<Hostile> {};

TEST_P(HostileHeader, IsRefusedWithItsReason) {
  const std::string fault = fault_of(GetParam().file);
  EXPECT_THAT(fault, HasSubstr(GetParam().message));
  EXPECT_THAT(fault, testing::StartsWith("x.safetensors: "));
  EXPECT_LT(fault.size(), 400u);
}

INSTANTIATE_TEST_SUITE_P(Files, HostileHeader, testing::ValuesIn(hostile_files()),
                         [](const auto& test) { return std::string(test.param.name); });
INSTANTIATE_TEST_SUITE_P(Entries, HostileHeader, testing::ValuesIn(hostile_entries()),
                         [](const auto& test) { return std::string(test.param.name); });
INSTANTIATE_TEST_SUITE_P(Sizes, HostileHeader, testing::ValuesIn(hostile_sizes()),
                         [](const auto& test) { return std::string(test.param.name); });
INSTANTIATE_TEST_SUITE_P(Metadata, HostileHeader, testing::ValuesIn(hostile_metadata()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(SafetensorsHeader, RefusesAPrefixThatEndsWithinTheHeader) {
  const std::string file = entry(kU8, 4);
  EXPECT_THROW(parse_safetensors_header(file.data(), 20, file.size(), "x"), InputError);
  EXPECT_THROW(parse_safetensors_header(file.data(), 4, file.size(), "x"), InputError);
}

TEST(SafetensorsHeader, SaysWhyAFileCannotBeRead) {
  EXPECT_THROW(read_safetensors_header(InputFile("/nonexistent/model.safetensors")), InputError);
  EXPECT_THROW(read_safetensors_header(InputFile("/tmp")), InputError);
  EXPECT_THROW(read_safetensors_header(InputFile("/dev/zero")), InputError);
}

TEST(SafetensorsHeader, SizesOfDtypes) {
  EXPECT_EQ(safetensors_dtype_size("BF16"), 2);
  EXPECT_EQ(safetensors_dtype_size("F8_E4M3"), 1);
  EXPECT_THROW(safetensors_dtype_size("bf16"), InputError);
}

}  // namespace
}  // namespace dotresize

#include "cli/models/models.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/limits.h"
#include "model/synthetic.h"

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;

TEST(ModelName, IsASafeFileName) {
  EXPECT_EQ(model_name("/a/b/SmolLM2-135M-Instruct.Q4_1.gguf"), "smollm2-135m-instruct.q4_1");
  EXPECT_EQ(model_name("../../..hidden model.GGUF"), "hidden-model.gguf");
  for (const char* name : {"a b", "Ünïcode.gguf", "x/../y", "....", "-", "a;rm -rf"}) {
    const std::string safe = model_name(name);
    if (!safe.empty()) {
      EXPECT_TRUE(check_model_name(safe).ok()) << safe;
    }
  }
}

TEST(CheckModelName, RefusesWhatIsNoName) {
  for (const char* name : {"", ".x", "A", "a/b", "a b", "..", "a\n"}) {
    EXPECT_FALSE(check_model_name(name).ok()) << name;
  }
  EXPECT_FALSE(check_model_name(std::string(129, 'a')).ok());
  EXPECT_TRUE(check_model_name(std::string(128, 'a')).ok());
}

class ModelsFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("hearth-models-" + std::to_string(getpid()));
    fs::create_directories(folder_);
    setenv("HEARTH_MODELS", folder_.c_str(), 1);
  }
  void TearDown() override {
    fs::remove_all(folder_);
    unsetenv("HEARTH_MODELS");
  }
  fs::path folder_;
};

TEST_F(ModelsFolder, ListsResolvesAndRemembers) {
  EXPECT_TRUE(list_models().empty());
  EXPECT_EQ(resolve_model("m").error().code, ErrorCode::kNotFound);
  std::ofstream(folder_ / "m.gguf") << "12345";
  std::ofstream(folder_ / "other.txt") << "x";
  LocalModel model;
  model.path = folder_ / "m.gguf";
  model.sha256 = "abc";
  model.source = "here";
  ASSERT_TRUE(write_model_record(model).ok());
  const auto models = list_models();
  ASSERT_EQ(models.size(), 1U);
  EXPECT_EQ(models[0].name, "m");
  EXPECT_EQ(models[0].bytes, 5U);
  EXPECT_EQ(models[0].sha256, "abc");
  EXPECT_EQ(*resolve_model("m"), folder_ / "m.gguf");
  EXPECT_EQ(*resolve_model((folder_ / "other.txt").string()), folder_ / "other.txt");
  EXPECT_FALSE(resolve_model("../" + folder_.filename().string() + "/m").ok());
}

TEST_F(ModelsFolder, ARemovedModelIsGoneWithItsRecord) {
  std::ofstream(folder_ / "m.gguf") << "1";
  std::ofstream(folder_ / "m.json") << "{}";
  std::ofstream(folder_ / "n.gguf") << "1";
  EXPECT_TRUE(remove_model("m").ok());
  EXPECT_FALSE(std::filesystem::exists(folder_ / "m.json"));
  ASSERT_EQ(list_models().size(), 1U);
  EXPECT_EQ(remove_model("m").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(remove_model("../m").error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(remove_model((folder_ / "n.gguf").string()).error().code, ErrorCode::kInvalidInput);
}

TEST_F(ModelsFolder, AModelInPartsIsOneModelOfManyFiles) {
  for (const char* file : {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
                           "m-00003-of-00003.gguf", "lost-00002-of-00002.gguf"}) {
    std::ofstream(folder_ / file) << "12345";
  }
  LocalModel model;
  model.path = folder_ / "m-00001-of-00003.gguf";
  model.source = "here";
  model.part_sha256 = {"a", "b", "c"};
  ASSERT_TRUE(write_model_record(model).ok());
  EXPECT_TRUE(fs::exists(folder_ / "m.json"));
  const auto models = list_models();
  ASSERT_EQ(models.size(), 1U) << "parts without the first are no model";
  EXPECT_EQ(models[0].name, "m");
  EXPECT_EQ(models[0].bytes, 15U);
  EXPECT_EQ(models[0].sha256, "");
  EXPECT_EQ(models[0].part_sha256, model.part_sha256);
  EXPECT_EQ(*resolve_model("m"), model.path);
  EXPECT_EQ(model_name("dir/My-Model-00002-of-00003.gguf"), "my-model");
  EXPECT_FALSE(resolve_model("m-00001-of-00003").ok());
  EXPECT_NE(check_model_name("m-00001-of-00003").error().message.find("leave the end out"),
            std::string::npos);
  ASSERT_TRUE(remove_model("m").ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1);
}

TEST_F(ModelsFolder, ABrokenRecordIsNoRecord) {
  std::ofstream(folder_ / "m.gguf") << "1";
  std::ofstream(folder_ / "m.json") << "{\"sha256\": [1, ";
  ASSERT_EQ(list_models().size(), 1U);
  EXPECT_EQ(list_models()[0].sha256, "");
}

TEST_F(ModelsFolder, Sha256OfAFile) {
  std::ofstream(folder_ / "x") << "abc";
  EXPECT_EQ(*sha256_of_file(folder_ / "x", {}),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_FALSE(sha256_of_file(folder_ / "none", {}).ok());
}

TEST_F(ModelsFolder, AChatTemplateOfAFileTakesThePlaceOfTheModelsOwn) {
  const Bytes bytes = model::synthetic_model_bytes({}).value();
  const auto file = model::GgufFile::parse(bytes, "m").value();
  const auto tokenizer = model::Tokenizer::load(*file).value();
  const auto text_of = [&](const std::string& path) {
    const auto read = read_chat_template(*file, *tokenizer, path);
    if (!read.ok()) return read.error().message;
    model::ChatTemplateInput input;
    input.messages.push_back({"user", "Hi"});
    const auto pieces = (*read)->render(input).value();
    std::string text;
    for (const auto& piece : pieces) text += piece.text;
    return text;
  };
  const std::string path = folder_ / "t.jinja";
  const auto with = [&](std::string_view source) {
    std::ofstream(path) << source;
    return text_of(path);
  };
  EXPECT_TRUE(text_of("").starts_with("<|im_start|>user")) << text_of("");
  EXPECT_EQ(with("{{ messages[0].content }}!"), "Hi!");
  EXPECT_TRUE(with("").starts_with(path + " is empty")) << with("");
  const std::string go = with("{{ if .System }}{{ .System }}{{ end }}{{ .Prompt }}");
  EXPECT_TRUE(go.starts_with(path + ": chat template line 1: ")) << go;
  EXPECT_NE(text_of(folder_ / "none").find("there is no file"), std::string::npos);
  EXPECT_NE(with(std::string(limits::kTemplateBytes + 1, 'x')).find("limit of 1048576"),
            std::string::npos);
}

}  // namespace
}  // namespace hearth::cli

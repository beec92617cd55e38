#include "cli/serve/model_list.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/limits.h"
#include "cli/serve/offered_models.h"
#include "model/synthetic.h"

namespace hearth::cli {
namespace {

namespace fs = std::filesystem;

struct ModelListTest : ::testing::Test {
  ModelListTest()
      : folder(fs::temp_directory_path() / ("hearth-model-list-" + std::to_string(getpid()))) {
    fs::create_directories(folder / "inner");
  }
  ~ModelListTest() override { fs::remove_all(folder); }
  std::string touch(const std::string& name) const {
    std::ofstream(folder / name) << "x";
    return (folder / name).string();
  }
  std::string write_model(const std::string& name, std::uint32_t layers) const {
    model::SyntheticOptions options;
    options.layers = layers;
    EXPECT_TRUE(model::write_synthetic_model((folder / name).string(), options).ok());
    return (folder / name).string();
  }
  const fs::path folder;
};

TEST_F(ModelListTest, AFolderIsItsModelsByName) {
  touch("b.gguf");
  touch("a.gguf");
  touch("readme.txt");
  touch("inner/c.gguf");
  const auto models = list_served_models({folder.string()});
  ASSERT_TRUE(models.ok()) << models.error().message;
  ASSERT_EQ(models->size(), 2u);
  EXPECT_EQ((*models)[0].path.filename(), "a.gguf");
  EXPECT_EQ((*models)[1].path.filename(), "b.gguf");
  EXPECT_TRUE((*models)[0].found);
}

TEST_F(ModelListTest, OfAModelInPartsTheFirstStandsForAll) {
  for (const char* name :
       {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "lost-00002-of-00002.gguf"}) {
    touch(name);
  }
  const auto models = list_served_models({folder.string()});
  ASSERT_TRUE(models.ok()) << models.error().message;
  ASSERT_EQ(models->size(), 2u) << "a part without its first is read, and says what is missing";
  EXPECT_EQ((*models)[0].path.filename(), "lost-00002-of-00002.gguf");
  EXPECT_EQ((*models)[1].path.filename(), "m-00001-of-00002.gguf");
}

TEST_F(ModelListTest, AFileThatIsGivenTwiceIsThereOnce) {
  const std::string b = touch("b.gguf");
  touch("a.gguf");
  const auto models = list_served_models({b, folder.string(), b});
  ASSERT_TRUE(models.ok());
  ASSERT_EQ(models->size(), 2u);
  EXPECT_EQ((*models)[0].path.filename(), "b.gguf") << "the first one is the first model";
  EXPECT_FALSE((*models)[0].found);
}

TEST_F(ModelListTest, WhatIsNotThereOrTooMuchIsAnError) {
  EXPECT_EQ(list_served_models({(folder / "inner").string()}).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(list_served_models({(folder / "none.gguf").string()}).ok());
  for (std::uint32_t i = 0; i <= limits::kServedModels; ++i) {
    touch(std::to_string(i) + ".gguf");
  }
  const auto many = list_served_models({folder.string()});
  ASSERT_FALSE(many.ok());
  EXPECT_NE(many.error().message.find("at most 64"), std::string::npos);
}

TEST_F(ModelListTest, OneOfAFolderThatCannotBeServedIsLeftOut) {
  write_model("a.gguf", 3);
  write_model("b.gguf", 4);
  const std::string broken = touch("c.gguf");
  ServeOptions options;
  options.models = {folder.string()};
  options.stages = 1;
  const auto offered = offer_models(options);
  ASSERT_TRUE(offered.ok()) << offered.error().message;
  ASSERT_EQ(offered->size(), 2u);
  EXPECT_EQ((*offered)[0].served.id, "a");
  EXPECT_GT((*offered)[1].weight_bytes, (*offered)[0].weight_bytes);
  options.models.push_back(broken);
  EXPECT_TRUE(offer_models(options).ok()) << "it came with the folder first";
  options.models = {broken};
  EXPECT_FALSE(offer_models(options).ok());
}

TEST_F(ModelListTest, AModelThatIsNotSplitHasOneStage) {
  model::SyntheticOptions whole;
  whole.family = "gemma4";
  whole.layer_input = 32;
  ServeOptions options;
  options.models = {(folder / "whole.gguf").string()};
  ASSERT_TRUE(model::write_synthetic_model(options.models.front(), whole).ok());
  options.optimise = placement::Objective::kAuto;
  const auto offered = offer_models(options);
  ASSERT_TRUE(offered.ok()) << offered.error().message;
  EXPECT_EQ(stages_of(options, offered->front().served.spec), 1U);
  options.stages = 2;
  EXPECT_NE(offer_models(options).error().message.find("2 stages; one node must hold every layer"),
            std::string::npos);
}

TEST_F(ModelListTest, ModelsHaveNamesOfTheirOwnAndAreDifferent) {
  const std::string a = write_model("a.gguf", 3);
  fs::copy_file(a, folder / "copy.gguf");
  write_model("inner/a.gguf", 4);
  ServeOptions options;
  options.stages = 1;
  options.models = {a, (folder / "copy.gguf").string()};
  EXPECT_NE(offer_models(options).error().message.find("the same header"), std::string::npos);
  options.models = {a, (folder / "inner/a.gguf").string()};
  EXPECT_NE(offer_models(options).error().message.find("the name 'a'"), std::string::npos);
  options.models = {a, write_model("b.gguf", 5)};
  options.model_id = "mine";
  EXPECT_NE(offer_models(options).error().message.find("--model-id"), std::string::npos);
}

TEST(WhyNoRoom, SaysWhatIsNeededAndWhatThereIs) {
  OfferedModel offered;
  offered.weight_bytes = 9'000'000'000;
  coordinator::SwarmStatus now;
  EXPECT_EQ(why_no_room(offered, now), "") << "without workers, nothing is known";
  for (int i = 0; i < 2; ++i) {
    coordinator::NodeStatus node;
    node.state = "serving";
    node.measured.emplace();
    node.measured->memory_bytes = 2'000'000'000;
    now.nodes.push_back(node);
  }
  const std::string why = why_no_room(offered, now);
  EXPECT_NE(why.find("9.0 GB"), std::string::npos) << why;
  EXPECT_NE(why.find("2 workers here may use 4.0 GB"), std::string::npos) << why;
  now.has_other_workers = true;
  EXPECT_EQ(why_no_room(offered, now), "");
  now.has_other_workers = false;
  offered.weight_bytes = 4'100'000'000;
  EXPECT_EQ(why_no_room(offered, now), "");
  now.nodes[0].measured.reset();
  offered.weight_bytes = 9'000'000'000;
  EXPECT_EQ(why_no_room(offered, now), "") << "one has not measured";
}

}  // namespace
}  // namespace hearth::cli

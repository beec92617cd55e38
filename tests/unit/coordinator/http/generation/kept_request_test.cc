#include "coordinator/http/generation/kept_request.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace hearth::coordinator::http {
namespace {

constexpr StepShape kShape{8, 100, 64, false};
constexpr const char* kModel = "fp";

KeptRequest a_request() {
  KeptRequest request;
  request.fingerprint = kModel;
  request.chat = false;
  request.stream = request.include_usage = request.return_token_ids = true;
  request.n = 2;
  request.created = 1'700'000'000;
  request.receipt = ledger::answer_name(request.created, Bytes(10, std::byte{7}));
  request.stop = {"END", "\n\n"};
  request.policy.trust = {"den", "attic"};
  request.policy.verify = Verify::kFull;
  request.policy.min_level = ledger::Level::kVeteran;
  request.policy.share = true;
  request.policy.cache = CacheScope::kShared;
  request.echoes = {"one", ""};
  for (const std::vector<TokenId>& prompt :
       {std::vector<TokenId>{1, 2, 3}, std::vector<TokenId>{99}}) {
    SequenceOpen open{{}, static_cast<std::uint32_t>(prompt.size()), true, {}};
    open.sampling.seed = 77;
    open.sampling.logit_bias = {{5, -1.5F}};
    open.sampling.stop_tokens = {2};
    open.sampling.max_tokens = 20;
    open.sampling.grammar = {std::byte{1}, std::byte{200}};
    request.prompts.push_back({{}, open, prompt});
  }
  return request;
}

Result<KeptRequest> decode(const Bytes& bytes) {
  return decode_kept_request(bytes, kShape, kModel);
}

TEST(KeptRequestTest, WhatIsWrittenIsRead) {
  const auto read = decode(encode(a_request()));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, a_request());
  KeptRequest unnamed = a_request();
  unnamed.receipt.reset();
  EXPECT_EQ(*decode(encode(unnamed)), unnamed) << "where no ledger is kept";
}

TEST(KeptRequestTest, EveryOtherLengthIsRefused) {
  const Bytes whole = encode(a_request());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(
        decode(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size))).ok());
  }
  Bytes more = whole;
  more.push_back(std::byte{0});
  EXPECT_FALSE(decode(more).ok());
}

TEST(KeptRequestTest, AnotherModelsIsNoDamage) {
  const auto read = decode_kept_request(encode(a_request()), kShape, "another");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kVersion);
}

TEST(KeptRequestTest, FieldsOutOfTheirRangeAreNamed) {
  const auto why = [](auto change) {
    KeptRequest request = a_request();
    change(request);
    const auto read = decode(encode(request));
    return read.ok() ? std::string() : read.error().message;
  };
  using R = KeptRequest;
  const auto expect = [&](const char* word, auto change) {
    EXPECT_NE(why(change).find(word), std::string::npos) << word << ": " << why(change);
  };
  expect("with verify 3", [](R& r) { r.policy.verify = static_cast<Verify>(3); });
  expect("cache is 3", [](R& r) { r.policy.cache = static_cast<CacheScope>(3); });
  expect("n is 0", [](R& r) { r.n = 0; });
  expect("n is 9", [](R& r) { r.n = limits::kChoices + 1; });
  expect("stop has 17", [](R& r) { r.stop.assign(limits::kStopStrings + 1, "x"); });
  expect("stop has 513", [](R& r) { r.stop = {std::string(limits::kStopStringBytes + 1, 'x')}; });
  expect("stop string is empty", [](R& r) { r.stop = {""}; });
  expect("name", [](R& r) { r.policy.trust = {"a\nb"}; });
  expect("must be equal in number", [](R& r) { r.echoes.pop_back(); });
  expect("no prompt", [](R& r) { r.prompts.clear(); });
  expect("a chat has one prompt", [](R& r) { r.chat = true; });
  expect("vocabulary", [](R& r) { r.prompts[0].prompt[1] = 100; });
  expect("context", [](R& r) { r.prompts[0].open.sampling.max_tokens = 62; });
  expect("has 4", [](R& r) { r.prompts[0].prompt.push_back(1); });
  expect("hashes", [](R& r) { r.prompts[1].open.report_hashes = false; });
  expect("sequences", [](R& r) {
    r.n = limits::kChoices;
    r.echoes.clear();
    r.prompts.resize(17, r.prompts[0]);
  });
}

}  // namespace
}  // namespace hearth::coordinator::http

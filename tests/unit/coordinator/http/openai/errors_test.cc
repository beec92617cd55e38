#include "coordinator/http/openai/errors.h"

#include <gtest/gtest.h>

#include "coordinator/http/api/api.h"
#include "coordinator/http/openai/json.h"

namespace hearth::coordinator::http {
namespace {

struct Mapping {
  ErrorCode from;
  unsigned status;
  const char* type;
  const char* code;
  bool retry_after;
  bool final;
};

constexpr Mapping kMappings[] = {
    {ErrorCode::kInvalidInput, 400, "invalid_request_error", "invalid_value", false, false},
    {ErrorCode::kNotFound, 500, "server_error", "not_found", false, false},
    {ErrorCode::kUnavailable, 503, "unavailable_error", "no_pipeline", true, false},
    {ErrorCode::kNoCapacity, 429, "rate_limit_error", "rate_limit_exceeded", true, false},
    {ErrorCode::kCancelled, 500, "server_error", "cancelled", false, false},
    {ErrorCode::kTimeout, 504, "unavailable_error", "timeout", false, false},
    {ErrorCode::kVersion, 500, "server_error", "version_mismatch", false, false},
    {ErrorCode::kIo, 500, "server_error", "io_error", false, false},
    {ErrorCode::kUnsupported, 400, "not_supported_error", "unsupported_value", false, false},
    {ErrorCode::kNumeric, 500, "server_error", "numeric_range", false, true},
    {ErrorCode::kRefused, 403, "permission_error", "outside_trust_set", false, false},
};

// The next code after the last one would be unknown here: the table is complete.
static_assert(static_cast<std::size_t>(ErrorCode::kRefused) + 1 == std::size(kMappings));

std::string header(const HttpResponse& response, const std::string& name) {
  std::string found;
  for (const auto& [key, value] : response.headers) {
    if (key == name) found += value;
  }
  return found;
}

TEST(ErrorsTest, EveryCodeOfTheCoordinatorHasItsAnswer) {
  for (const Mapping& each : kMappings) {
    const ApiError error = from_coordinator({each.from, "a \"sentence\"\n"}, 17);
    const std::string name(error_code_name(each.from));
    EXPECT_EQ(error.status, each.status) << name;
    EXPECT_EQ(error.type, each.type) << name;
    EXPECT_EQ(error.code, each.code) << name;
    EXPECT_EQ(error.message, "a \"sentence\"\n") << name;
    EXPECT_EQ(error.final, each.final) << name;
    EXPECT_EQ(error.retry_after.has_value(), each.retry_after) << name;
    const HttpResponse response = error_response(error);
    EXPECT_EQ(response.status, each.status);
    EXPECT_EQ(response.content_type, "application/json");
    EXPECT_EQ(header(response, "Retry-After"), each.retry_after ? "17" : "") << name;
    EXPECT_EQ(header(response, "x-should-retry"), each.final ? "false" : "") << name;
    const Json body = Json::parse(response.body);
    EXPECT_EQ(body["error"]["message"], "a \"sentence\"\n");
    EXPECT_EQ(body["error"]["type"], each.type);
    EXPECT_EQ(body["error"]["code"], each.code);
    EXPECT_TRUE(body["error"]["param"].is_null());
  }
}

TEST(ErrorsTest, BodiesHaveTheKeysInOrderAndAreValidUtf8) {
  ApiError error = ApiError::not_supported("broken \xff byte", "tools");
  EXPECT_EQ(error_body(error),
            "{\"error\":{\"message\":\"broken \xEF\xBF\xBD byte\",\"type\":\"not_supported_error\","
            "\"param\":\"tools\",\"code\":\"unsupported_value\"}}");
  error.code.reset();
  error.param.reset();
  const Json body = Json::parse(error_body(error));
  ASSERT_EQ(body.size(), 1U);
  ASSERT_EQ(body["error"].size(), 4U);
  EXPECT_TRUE(body["error"]["code"].is_null());
  EXPECT_TRUE(body["error"]["param"].is_null());
}

TEST(ErrorsTest, ConstructorsSetTheirStatusAndType) {
  const ApiError invalid = ApiError::invalid("m", "field");
  EXPECT_EQ(invalid.status, 400U);
  EXPECT_EQ(invalid.type, "invalid_request_error");
  EXPECT_EQ(invalid.param, "field");
  EXPECT_EQ(invalid.code, "invalid_value");
  const ApiError missing = ApiError::not_found("m", "model_not_found");
  EXPECT_EQ(missing.status, 404U);
  EXPECT_EQ(missing.type, "not_found_error");
  EXPECT_FALSE(missing.param.has_value());
}

}  // namespace
}  // namespace hearth::coordinator::http

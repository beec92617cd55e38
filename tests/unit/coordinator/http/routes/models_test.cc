#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "coordinator/http/api/router.h"
#include "coordinator/http/generation/generation.h"
#include "tests/unit/coordinator/http/generation/played.h"
#include "tests/unit/coordinator/http/routes/served_model.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator::http {
namespace {

// A server with two models, of which the second is loaded.
struct ModelsTest : ::testing::Test {
  ModelsTest() {
    port.swarm.ready = true;
    port.swarm.model = 1;
    port.swarm.models = {{"tiny", "waiting", "", 3}, {"large", "ready", "", 0}};
  }
  static ServedModels two() {
    std::vector<ServedModel> models(2, tiny_model().served);
    models[1].id = "large";
    models[1].fingerprint = "fp_large";
    models[1].spec.context = 32;
    return ServedModels(std::move(models));
  }
  Json call(const std::string& method, const std::string& path, const std::string& body = "",
            std::vector<std::string> allowed = {}) {
    client = std::make_shared<PlayedClient>();
    const RouteMatch match = find_route(method, path);
    HttpRequest http;
    http.method = method;
    http.path = path;
    http.body = body;
    http.arrived = clock.now();
    http.models = std::move(allowed);
    http.dialect = match.dialect;
    match.handler({api, std::move(http), client});
    pump();
    return client->response ? Json::parse(client->response->body) : Json();
  }
  void pump() {
    while (!tasks.empty()) {
      const ThreadGate::Task task = std::move(tasks.front());
      tasks.pop_front();
      task();
    }
  }
  unsigned status() const { return client->response ? client->response->status : 0; }

  hearth::testing::FakeClock clock;
  SeededRandom random{1};
  PlayedPort port;
  std::deque<ThreadGate::Task> tasks;
  std::shared_ptr<PlayedClient> client;
  std::shared_ptr<Api> api = std::make_shared<Api>(
      HttpOptions(), two(), port, clock, random,
      [this](ThreadGate::Task task) { tasks.push_back(std::move(task)); },
      [this](ThreadGate::Task task) { tasks.push_back(std::move(task)); });
};

TEST_F(ModelsTest, TheListSaysWhichAreReady) {
  const Json list = call("GET", "/v1/models")["data"];
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0]["status"]["value"], "unloaded");
  EXPECT_EQ(list[0]["hearth"], (Json{{"state", "waiting"}, {"waiting", 3}}));
  EXPECT_EQ(list[1]["status"]["value"], "loaded");
  EXPECT_EQ(call("GET", "/v1/models/large")["max_model_len"], 32);
  port.swarm.models[0] = {"tiny", "failed", "the model 'tiny' could not be loaded: why", 0};
  const Json failed = call("GET", "/v1/models/tiny");
  EXPECT_EQ(failed["status"]["value"], "failed");
  EXPECT_EQ(failed["hearth"]["why"], "the model 'tiny' could not be loaded: why");
  EXPECT_EQ(call("GET", "/api/tags")["models"].size(), 2u);
  const Json running = call("GET", "/api/ps")["models"];
  ASSERT_EQ(running.size(), 1u);
  EXPECT_EQ(running[0]["name"], "large");
  const Json state = call("GET", "/api/v1/state");
  EXPECT_EQ(state["model"]["id"], "large");
  EXPECT_EQ(state["models"][0]["state"], "failed");
}

TEST_F(ModelsTest, ThePowerOfAMachineCountsOnce) {
  const auto add = [&](const char* name, const char* address, const char* device, double watts) {
    NodeStatus& node = port.swarm.nodes.emplace_back();
    node.name = name;
    node.state = "serving";
    node.data_address = address;
    node.device = device;
    node.energy_joules_total = 100.0;
    node.watts = watts;
  };
  EXPECT_EQ(call("GET", "/api/v1/state")["power"], (Json{{"watts", 0.0}, {"nodes", 0}}));
  add("a", "10.0.0.1:5000", "", 60.0);
  add("b", "10.0.0.1:5001", "", 62.0);  // on the same processors
  add("c", "10.0.0.1:5002", "cuda:0 NVIDIA GeForce RTX 4090", 300.0);
  add("d", "10.0.0.2:5000", "", 40.0);
  add("e", "10.0.0.3:5000", "", 1e6);
  port.swarm.nodes.back().state = "lost";
  port.swarm.nodes.emplace_back().name = "f";  // it cannot tell
  add("g", "10.0.0.1:5000", "", 30.0);
  port.swarm.nodes.back().seen_host = "203.0.113.9";  // another machine, in another network
  const Json state = call("GET", "/api/v1/state");
  EXPECT_EQ(state["power"], (Json{{"watts", 432.0}, {"nodes", 5}}));
  EXPECT_EQ(state["nodes"][0]["watts"], 60.0);
  EXPECT_EQ(state["nodes"][0]["energy_joules_total"], 100.0);
  EXPECT_FALSE(state["nodes"][5].contains("watts"));
  EXPECT_EQ(state["nodes"][6].contains("seen_host"), state["manages"].get<bool>());
}

TEST_F(ModelsTest, EachModelHasItsReadiness) {
  call("GET", "/readyz");
  EXPECT_EQ(status(), 200u);
  call("GET", "/readyz/large");
  EXPECT_EQ(status(), 200u);
  Json error = call("GET", "/readyz/tiny")["error"];
  EXPECT_EQ(status(), 503u);
  EXPECT_EQ(error["code"], "model_not_loaded");
  EXPECT_EQ(error["message"], "the model 'tiny' is not loaded; a request for it loads it");
  call("GET", "/readyz/none");
  EXPECT_EQ(status(), 404u);
  port.swarm.ready = false;
  port.swarm.missing = "the model 'large' is being loaded; 0 workers are registered";
  error = call("GET", "/readyz/large")["error"];
  EXPECT_EQ(status(), 503u);
  EXPECT_NE(std::string(error["message"]).find("0 workers"), std::string::npos);
}

TEST_F(ModelsTest, ARequestReachesTheModelThatItNames) {
  const auto ask = [this](const std::string& model) {
    port.submitted.clear();
    return call("POST", "/v1/completions",
                "{\"prompt\": [70, 71], \"max_tokens\": 4" + model + "}");
  };
  ask("");
  ASSERT_EQ(port.submitted.size(), 1u);
  EXPECT_EQ(port.submitted[0].request.model, 0u) << "without a name, the first one";
  ask(R"(, "model": "large")");
  ASSERT_EQ(port.submitted.size(), 1u);
  EXPECT_EQ(port.submitted[0].request.model, 1u);
  const Json error = ask(R"(, "model": "none")")["error"];
  EXPECT_EQ(status(), 404u);
  EXPECT_EQ(error["message"],
            "the model 'none' is not served here; this swarm serves 'tiny', 'large'");
  EXPECT_TRUE(port.submitted.empty());
  const Json large = call("POST", "/v1/completions",
                          R"({"model": "large", "prompt": [70, 71], "max_tokens": 40})")["error"];
  EXPECT_EQ(large["code"], "context_length_exceeded") << "by its own context";
  EXPECT_EQ(
      call("POST", "/api/show", R"({"model": "large:latest"})")["model_info"]["general.basename"],
      "large");
}

TEST_F(ModelsTest, AKeySeesAndUsesItsModelsAlone) {
  const std::vector<std::string> one = {"large"};
  const Json list = call("GET", "/v1/models", "", one)["data"];
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["id"], "large");
  EXPECT_EQ(call("GET", "/api/tags", "", one)["models"].size(), 1u);
  EXPECT_EQ(
      call("POST", "/v1/completions", R"({"prompt": [70], "model": "tiny"})", one)["error"]["code"],
      "model_not_allowed");
  EXPECT_EQ(status(), 403u);
  const Json error =
      call("POST", "/v1/completions", R"({"prompt": [70], "model": "none"})", one)["error"];
  EXPECT_EQ(std::string(error["message"]).find("tiny"), std::string::npos)
      << "a name that the key may not use is not told";
  EXPECT_TRUE(port.submitted.empty());
  // Without a name it is the key's own, by its own context.
  for (const char* body : {R"({"prompt": [70]})", R"({"prompt": [70], "model": ""})"}) {
    port.submitted.clear();
    call("POST", "/v1/completions", body, one);
    ASSERT_EQ(port.submitted.size(), 1u);
    EXPECT_EQ(port.submitted[0].request.model, 1u);
  }
  EXPECT_EQ(call("POST", "/v1/completions", R"({"prompt": [70], "max_tokens": 40})",
                 one)["error"]["code"],
            "context_length_exceeded");
  EXPECT_EQ(call("POST", "/v1/completions", R"({"prompt": [70]})", {"gone"})["error"]["code"],
            "model_not_allowed");
}

// Ollama's clients have a model loaded by a request without a prompt.
TEST_F(ModelsTest, ARequestWithoutAPromptIsAnsweredWhenItsModelHasComputed) {
  for (const char* route : {"/api/generate", "/api/chat"}) {
    port.submitted.clear();
    call("POST", route, R"({"model": "tiny"})");
    ASSERT_EQ(port.submitted.size(), 1u) << route;
    EXPECT_EQ(port.submitted[0].request.model, 0u);
    EXPECT_EQ(port.submitted[0].request.sampling.max_tokens, 1u);
    EXPECT_FALSE(client->response) << "not before";
    port.submitted[0].done(SequenceId(1));
    port.submitted[0].events->on_admitted();
    SampledToken token;
    token.sequence = SequenceId(1);
    token.position = 1;
    token.finish = FinishReason::kLength;
    port.submitted[0].events->on_token(token);
    pump();
    ASSERT_TRUE(client->response);
    const Json body = Json::parse(client->response->body);
    EXPECT_EQ(body["done_reason"], "load");
    EXPECT_EQ(body["model"], "tiny");
  }
  port.submitted.clear();
  EXPECT_EQ(call("POST", "/api/generate", R"({"model": "tiny", "keep_alive": 0})")["done_reason"],
            "unload");
  EXPECT_TRUE(port.submitted.empty());
}

struct EmbeddersTest : ModelsTest {
  // The second model gives embeddings.
  EmbeddersTest() {
    std::vector<ServedModel> models(2, tiny_model().served);
    models[1].id = "embedder";
    models[1].spec.gives_embeddings = true;
    api = std::make_shared<Api>(
        HttpOptions(), ServedModels(std::move(models)), port, clock, random,
        [this](ThreadGate::Task task) { tasks.push_back(std::move(task)); },
        [this](ThreadGate::Task task) { tasks.push_back(std::move(task)); });
  }
  std::string refusal(const std::string& path, const std::string& body) {
    const Json said = call("POST", path, body);
    const Json error = said.value("error", Json(said));
    EXPECT_EQ(status(), 400u) << path;
    EXPECT_TRUE(port.submitted.empty()) << path;
    return error.is_string() ? error.get<std::string>() : error.value("message", "");
  }
};

TEST_F(EmbeddersTest, AModelGivesEmbeddingsOrGenerates) {
  const std::string say = R"("messages": [{"role": "user", "content": "a"}], "max_tokens": 4})";
  for (const auto& [path, rest] :
       std::vector<std::pair<const char*, std::string>>{{"/v1/chat/completions", say},
                                                        {"/v1/messages", say},
                                                        {"/api/chat", say},
                                                        {"/v1/completions", R"("prompt": "a"})"},
                                                        {"/v1/responses", R"("input": "a"})"},
                                                        {"/api/generate", R"("prompt": "a"})"}}) {
    EXPECT_NE(refusal(path, R"({"model": "embedder", )" + rest).find("generates no text"),
              std::string::npos)
        << path;
  }
  for (const char* path : {"/v1/embeddings", "/api/embed", "/api/embeddings"}) {
    EXPECT_NE(refusal(path, R"({"model": "tiny", "input": "a", "prompt": "a"})")
                  .find("gives no embeddings"),
              std::string::npos)
        << path;
  }
  EXPECT_EQ(call("POST", "/api/show", R"({"model": "embedder"})")["capabilities"],
            Json::array({"embedding"}));
  const Json models = call("GET", "/v1/models")["data"];
  EXPECT_EQ(models[0]["capabilities"], Json::array({"completion"}));
  EXPECT_EQ(models[1]["capabilities"], Json::array({"embedding"}));
}

TEST_F(EmbeddersTest, EachInputIsASequence) {
  const std::string model = R"({"model": "embedder", )";
  call("POST", "/v1/embeddings", model + R"("input": ["abc", [70, 71]], "dimensions": 8})");
  ASSERT_EQ(port.submitted.size(), 2u);
  EXPECT_EQ(port.submitted[1].request.prompt, (std::vector<TokenId>{70, 71}));
  for (const auto& each : port.submitted) EXPECT_EQ(each.request.embedding, 8u);
  const std::uint32_t context = tiny_model().served.spec.context;
  const std::string too_long(std::size_t{20} * context, 'x');
  port.submitted.clear();
  call("POST", "/api/embed", model + R"("input": ")" + too_long + "\"}");
  ASSERT_EQ(port.submitted.size(), 1u) << "it is cut";
  EXPECT_EQ(port.submitted[0].request.prompt.size(), context - 1);
  port.submitted.clear();
  EXPECT_NE(refusal("/api/embed", model + R"("truncate": false, "input": ")" + too_long + "\"}"),
            "");
  EXPECT_NE(refusal("/v1/embeddings", model + R"("input": ""})").find("'input' has no tokens"),
            std::string::npos);
}

TEST_F(ModelsTest, AStreamThatWaitsIsToldWhy) {
  call("POST", "/v1/chat/completions",
       R"({"model": "tiny", "messages": [{"role": "user", "content": "a"}], "max_tokens": 4,
           "stream": true})");
  ASSERT_EQ(port.submitted.size(), 1u);
  port.submitted[0].done(SequenceId(1));
  pump();
  EXPECT_TRUE(client->streaming) << "at once";
  port.submitted[0].events->on_loading({"tiny", false});
  port.submitted[0].events->on_loading({"tiny", true, 2, 10, 40});
  pump();
  const std::vector<Json> events = client->events();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0]["hearth"], (Json{{"loading", {{"model", "tiny"}, {"state", "waiting"}}}}));
  EXPECT_EQ(events[1]["hearth"]["loading"]["bytes_total"], 40);
  EXPECT_EQ(events[1]["hearth"]["loading"]["workers"], 2);
  ASSERT_EQ(events[1]["choices"].size(), 1u) << "clients read a choice in each chunk";
  EXPECT_EQ(events[1]["choices"][0]["delta"], Json::object());
  EXPECT_TRUE(events[1]["choices"][0]["finish_reason"].is_null());
}

}  // namespace
}  // namespace hearth::coordinator::http

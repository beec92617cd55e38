// A server with a store and a cluster, whose routes for admins the test calls.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/http/api/router.h"
#include "coordinator/http/generation/generation.h"
#include "tests/unit/coordinator/http/generation/played.h"
#include "tests/unit/coordinator/http/routes/served_model.h"
#include "tests/unit/coordinator/store/store_folder.h"
#include "tests/unit/proto/fake_transport.h"

namespace hearth::coordinator::http {

struct ManagedTest : ::testing::Test {
  ManagedTest() {
    api->options.store = store;
    api->options.cluster = "home";
    api->options.join = JoinPoint{roster, "10.0.0.1:11501"};
    api->options.owner_key = "00112233445566ff";
  }
  // As the router calls it; the body of the answer.
  Json ask(const std::string& method, const std::string& path, const std::string& body = "",
           Access access = Access::kManage) {
    client = std::make_shared<PlayedClient>();
    HttpRequest request;
    request.method = method;
    request.path = path;
    request.body = body;
    request.policy.owner = kOwner;
    const RouteMatch match = find_route(method, path);
    EXPECT_EQ(match.access, access) << path;
    match.handler({api, std::move(request), client});
    while (!tasks.empty()) {
      const ThreadGate::Task task = std::move(tasks.front());
      tasks.pop_front();
      task();
    }
    if (!client->response) return Json();
    return Json::parse(client->response->body);
  }
  unsigned status() const { return client->response ? client->response->status : 0; }
  std::int64_t now() const { return clock.unix_seconds(); }

  static constexpr const char* kOwner = "0123456789abcdef";  // the key that asks
  hearth::testing::FakeClock clock;
  SeededRandom random{1};
  PlayedPort port;
  StoreFolder folder;
  std::shared_ptr<Store> store = folder.open();
  const SecretKey cluster = SecretKey::generate();
  std::shared_ptr<RosterBook> roster = std::make_shared<RosterBook>(cluster.public_key());
  std::deque<ThreadGate::Task> tasks;
  std::shared_ptr<PlayedClient> client;
  std::shared_ptr<Api> api = std::make_shared<Api>(
      HttpOptions(), tiny_model().served, port, clock, random,
      [this](ThreadGate::Task task) { tasks.push_back(std::move(task)); },
      [this](ThreadGate::Task task) { tasks.push_back(std::move(task)); });
};

}  // namespace hearth::coordinator::http

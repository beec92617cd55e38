#include "proto/link/grpc_tls.h"

#include <grpc/grpc_security_constants.h>
#include <grpc/support/log.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <atomic>
#include <cstdlib>
#include <utility>
#include <vector>

namespace hearth {
namespace {

using grpc::experimental::CertificateVerifier;
using grpc::experimental::ExternalCertificateVerifier;
using grpc::experimental::StaticDataCertificateProvider;
using grpc::experimental::TlsCustomVerificationCheckRequest;

// gRPC 1.51 also offers TLS 1.2. Its only option against that is the list of TLS 1.2 ciphers, which
// OpenSSL requires to be non-empty. The cipher named here needs a certificate with an RSA key. Our
// server has no such certificate and our client accepts none, so TLS 1.2 is never negotiated. The
// list does not affect TLS 1.3, and gRPC reads it once, before its first handshake.
void allow_nothing_below_tls_13() {
  ::setenv("GRPC_SSL_CIPHER_SUITES", "ECDHE-RSA-AES256-GCM-SHA384", 1);
}

std::atomic<void (*)(std::string_view)> failed_handshake{nullptr};

// Only gRPC's own log has the reason of a failed handshake; its other lines are dropped.
void hear_library_log(gpr_log_func_args* args) {
  constexpr std::string_view kFailed = "Handshake failed";
  const std::string_view line = args->message;
  const auto heard = failed_handshake.load();
  if (heard == nullptr || !line.starts_with(kFailed)) return;
  // "... error:0A00009C:SSL routines::http request."
  const std::size_t reason = line.rfind("::");
  heard(reason == std::string_view::npos ? line : line.substr(reason + 2));
}

// GRPC_VERBOSITY brings the library's own log back.
void quiet_library_log() {
  if (std::getenv("GRPC_VERBOSITY") != nullptr) return;
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
  gpr_set_log_function(hear_library_log);
}

void set_up_library() {
  static const bool done = (allow_nothing_below_tls_13(), quiet_library_log(), true);
  (void)done;
}

class KeyVerifier final : public ExternalCertificateVerifier {
 public:
  explicit KeyVerifier(AdmitKey admit) : admit_(std::move(admit)) {}

  bool Verify(TlsCustomVerificationCheckRequest* request,
              std::function<void(grpc::Status)> /*later*/, grpc::Status* status) override {
    const grpc::string_ref pem = request->peer_cert();
    const auto key = certificate_key(std::string_view(pem.data(), pem.size()));
    const hearth::Status admitted = key ? admit_(*key) : hearth::Status(key.error());
    if (!admitted.ok()) *status = {grpc::StatusCode::UNAUTHENTICATED, "not admitted"};
    return true;
  }
  void Cancel(TlsCustomVerificationCheckRequest* /*request*/) override {}

 private:
  const AdmitKey admit_;
};

std::shared_ptr<StaticDataCertificateProvider> provider_of(const TlsIdentity& identity) {
  std::vector<grpc::experimental::IdentityKeyCertPair> pairs = {
      {identity.private_key, identity.certificate}};
  return std::make_shared<StaticDataCertificateProvider>(pairs);
}

}  // namespace

std::shared_ptr<grpc::ChannelCredentials> tls_channel_credentials(const TlsIdentity& identity,
                                                                  AdmitKey admit) {
  set_up_library();
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(provider_of(identity));
  options.watch_identity_key_cert_pairs();
  // The verifier decides, not chains and names.
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(
      ExternalCertificateVerifier::Create<KeyVerifier>(std::move(admit)));
  return grpc::experimental::TlsCredentials(options);
}

std::shared_ptr<grpc::ServerCredentials> tls_server_credentials(const TlsIdentity& identity,
                                                                AdmitKey admit) {
  set_up_library();
  grpc::experimental::TlsServerCredentialsOptions options(provider_of(identity));
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_BUT_DONT_VERIFY);
  options.set_check_call_host(false);
  options.set_certificate_verifier(
      ExternalCertificateVerifier::Create<KeyVerifier>(std::move(admit)));
  return grpc::experimental::TlsServerCredentials(options);
}

// setenv() is not safe beside a thread that reads the environment, as libpq does when it connects.
void on_failed_handshake(void (*heard)(std::string_view why)) {
  set_up_library();
  failed_handshake = heard;
}

// A resumed session shows the earlier session's certificate without proof of its key: any process
// that has read the ticket could resume it. Our sessions are never resumed.
Result<PublicKey> peer_key(const grpc::AuthContext& context) {
  for (const grpc::string_ref& value :
       context.FindPropertyValues(GRPC_SSL_SESSION_REUSED_PROPERTY)) {
    REQUIRE(value != "true", "the connection resumes an earlier session");
  }
  const auto found = context.FindPropertyValues("x509_pem_cert");
  REQUIRE(found.size() == 1, "the connection has no certificate of its peer");
  return certificate_key(std::string_view(found.front().data(), found.front().size()));
}

}  // namespace hearth

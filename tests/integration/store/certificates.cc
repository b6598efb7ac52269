// SPDX-License-Identifier: BSD-3-Clause
#include "certificates.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

namespace weir {
namespace {

void openssl(std::vector<std::string> words, const std::filesystem::path& folder) {
  words.insert(words.begin(), "openssl");
  const std::filesystem::path output = folder / "output";
  if (ChildProcess(words, output).wait() == 0) return;
  std::ifstream file(output);
  ADD_FAILURE() << "openssl " << words[1] << " failed (is it installed?)\n"
                << std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace

CertificateAuthority::CertificateAuthority(const std::string& name) : folder_("certificates") {
  openssl({"req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
           "2", "-subj", "/CN=" + name, "-keyout", folder_.path() / "authority.key", "-out", file()},
          folder_.path());
  const std::string folder = folder_.path().string();
  std::ofstream(folder_.path() / "issued");
  std::ofstream(folder_.path() / "authority.cnf")
      << "[ca]\ndefault_ca = authority\n"
         "[authority]\npolicy = any\nrand_serial = yes\ndefault_md = sha256\nunique_subject = no\n"
      << "database = " << folder << "/issued\nnew_certs_dir = " << folder
      << "\ncertificate = " << file().string() << "\nprivate_key = " << folder << "/authority.key\n"
      << "[any]\ncommonName = supplied\n";
}

CertificateFiles CertificateAuthority::issue(const std::string& file_name, const std::string& names,
                                             Validity validity) {
  const CertificateFiles files{folder_.path() / (file_name + ".pem"), folder_.path() / (file_name + ".key")};
  const std::filesystem::path request = folder_.path() / (file_name + ".csr");
  const std::filesystem::path extensions = folder_.path() / (file_name + ".ext");
  std::ofstream(extensions) << "subjectAltName=" << names << '\n';
  openssl({"req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj",
           "/CN=" + file_name, "-keyout", files.key, "-out", request},
          folder_.path());
  std::vector<std::string> words{"ca", "-batch", "-notext", "-config", folder_.path() / "authority.cnf"};
  words.insert(words.end(), {"-in", request, "-extfile", extensions, "-out", files.certificate});
  // Of all commands of openssl's only this one dates a certificate back, in each of its versions.
  if (validity == Validity::expired)
    words.insert(words.end(), {"-startdate", "20240101000000Z", "-enddate", "20240102000000Z"});
  else
    words.insert(words.end(), {"-days", "2"});
  openssl(std::move(words), folder_.path());
  return files;
}

}  // namespace weir

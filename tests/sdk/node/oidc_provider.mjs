// An OpenID Provider (npm: oidc-provider) with one client, the console of the gateway at GATEWAY, and its own pages for sign-in and consent.
// It prints its port. Any name signs in; `claims` says what an ID token then has. It ends when its input does.
import { createServer } from 'node:http';
import Provider from 'oidc-provider';

const server = createServer();
await new Promise((done) => server.listen(0, '127.0.0.1', done));
const { port } = server.address();
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: 'turnpike-console',
      client_secret: 'secret of the console',
      application_type: 'native', // Plain HTTP on loopback.
      redirect_uris: [`${process.env.GATEWAY}/console/signed-in`],
      response_types: ['code'],
      grant_types: ['authorization_code'],
    },
  ],
  claims: { openid: ['sub', 'email', 'role', 'scope'] },
  conformIdTokenClaims: false,
  ttl: { IdToken: 60, AccessToken: 60, AuthorizationCode: 60, Grant: 600, Interaction: 600, Session: 600 },
  pkce: { required: () => true },
  cookies: { keys: ['of this process'] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: () => ({ sub: id, email: `${id}@example.test`, role: 'admin', scope: 'logs.list logs.view analytics.view workspaces.read' }),
  }),
});
provider.on('server_error', (_, error) => console.error(error));
server.on('request', provider.callback());
console.log(port);
process.stdin.resume().on('end', () => process.exit(0));

// Debian's node-sockjs-client, unmodified, with a server as a process of its own:
//
//     NODE_PATH=/usr/share/nodejs node sockjs_client_test.js PATH_OF_ANABRANCH
//
// A line that begins with `ok` says what has been shown. The first failure ends the script with status 1.
'use strict'

const assert = require('node:assert')
const { spawn } = require('node:child_process')
const { mkdtempSync, rmSync, writeFileSync } = require('node:fs')
const { tmpdir } = require('node:os')
const { join } = require('node:path')
const SockJS = require('sockjs-client')

const app = 'my-app'
const home = mkdtempSync(join(tmpdir(), 'sockjs-'))
const ok = what => console.log('ok', what)

/** Starts the server: `{process, port}` once it listens. */
function start (port) {
  writeFileSync(join(home, 'anabranch.yaml'), `
listen: 127.0.0.1:${port}
data: ${join(home, 'data')}
rules: everybody
apps:
  ${app}: {providers: [local-userpass], simperium: {}}
`)
  const server = spawn(process.argv[2], ['serve', '--config', join(home, 'anabranch.yaml')],
    { stdio: ['ignore', 'pipe', 'inherit'] })
  return new Promise((resolve, reject) => {
    let text = ''
    server.stdout.on('data', data => {
      text += data
      const line = /^listening on .*:(\d+)$/m.exec(text)
      if (line) resolve({ process: server, port: Number(line[1]) })
    })
    server.on('exit', () => reject(new Error('the server has ended')))
  })
}

const stop = server => new Promise(resolve => {
  server.process.removeAllListeners('exit').on('exit', resolve)
  server.process.kill()
})

/** A client of a bucket, whose messages come one by one. */
class Client {
  constructor (port, transports) {
    this.sock = new SockJS(`http://127.0.0.1:${port}/sock/1/${app}`, null, transports ? { transports } : {})
    this.messages = []
    this.closed = new Promise(resolve => { this.sock.onclose = resolve })
    this.opened = new Promise(resolve => { this.sock.onopen = resolve })
    this.sock.onmessage = event => {
      this.messages.push(event.data)
      this.wake?.()
    }
  }

  async next () {
    while (!this.messages.length) await new Promise(resolve => { this.wake = resolve })
    return this.messages.shift()
  }

  async open (token, client) {
    await this.opened
    const opening = { name: 'note', clientid: client, token, app_id: app, build: 1, cmd: 'i:1:::40' }
    this.sock.send('0:init:' + JSON.stringify(opening))
    assert.strictEqual(await this.next(), '0:auth:ann@example.com')
    return JSON.parse((await this.next()).slice('0:i:'.length))
  }

  async change () {
    const message = await this.next()
    assert(message.startsWith('0:c:'), message)
    return JSON.parse(message.slice(4))
  }
}

async function main () {
  let server = await start(0)
  try {
    const port = server.port
    const base = `http://127.0.0.1:${port}`
    const created = await fetch(`${base}/1/${app}/create/`,
      { method: 'POST', body: JSON.stringify({ username: 'ann@example.com', password: 'secret-word' }) })
    const token = (await created.json()).access_token
    const welcome = await fetch(`${base}/sock/1/${app}/`)
    assert.strictEqual(await welcome.text(), 'Welcome to SockJS!\n')
    const info = await fetch(`${base}/sock/1/${app}/info`, { headers: { Origin: 'http://example.com' } })
    assert.strictEqual((await info.json()).websocket, true)
    assert.strictEqual(info.headers.get('access-control-allow-origin'), 'http://example.com')
    assert.strictEqual((await fetch(`${base}/sock/1/${app}/info`, { method: 'OPTIONS' })).status, 204)
    assert.strictEqual((await fetch(`${base}/sock/1/other/info`)).status, 404)
    ok('the welcome and info')

    const one = new Client(port)
    assert.deepStrictEqual((await one.open(token, 'one')).index, [])
    assert.strictEqual(one.sock.transport, 'websocket')
    const two = new Client(port)
    const listed = await two.open(token, 'two')
    for (const client of [one, two]) {
      client.sock.send('0:cv:' + listed.current)
      assert.deepStrictEqual(await client.change(), [])
    }
    // Quotes and escapes of two layers of JSON, and more than one frame of a WebSocket.
    const text = 'a "b" \\ \n \u2028 🐙 ' + 'é'.repeat(40000)
    one.sock.send('0:c:' + JSON.stringify({ o: 'M', id: 'k', ccid: 'c1', v: { t: { o: '+', v: text } } }))
    let last
    for (const client of [one, two]) {
      const [change] = await client.change()
      assert.strictEqual(change.v.t.v, text)
      assert.deepStrictEqual([change.id, change.ev, change.ccids], ['k', 1, ['c1']])
      last = change.cv
    }
    two.sock.send('h:1')
    assert.strictEqual(await two.next(), 'h:2')
    ok('two clients sync a bucket')

    two.sock.close()
    assert.strictEqual((await two.closed).code, 1000)
    await stop(server)
    const { wasClean } = await one.closed
    server = await start(port)
    const again = new Client(port)
    assert.deepStrictEqual((await again.open(token, 'one')).index, [{ id: 'k', v: 1, d: { t: text } }])
    again.sock.send('0:cv:' + last)
    assert.deepStrictEqual(await again.change(), [])
    again.sock.send('0:c:' + JSON.stringify({ o: '-', id: 'k', ccid: 'c2' }))
    assert.strictEqual((await again.change())[0].ev, 2)
    again.sock.close()
    ok(`a restart closes (${wasClean ? 'cleanly' : 'at once'}), and it connects again`)

    for (const transports of [['xhr-streaming'], ['xhr-polling'], ['eventsource'],
      ['xhr-streaming', 'eventsource', 'xhr-polling']]) {
      const { code } = await new Client(port, transports).closed
      assert.strictEqual(code, 2000, transports)
    }
    const both = new Client(port, ['xhr-polling', 'xhr-streaming', 'websocket'])
    assert.strictEqual((await both.open(token, 'three')).index.length, 0)
    both.sock.close()
    ok('other transports are refused, and the next one is tried')
  } finally {
    await stop(server)
    rmSync(home, { recursive: true })
  }
}

main().catch(error => {
  console.error(error)
  process.exit(1)
})

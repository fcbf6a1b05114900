"""The till of a music store: a Django app on a database that it did not make.

python3 shop.py FILE sell EMAIL TRACK…      a sale, with its lines
python3 shop.py FILE playlist NAME TRACK…   a playlist with these tracks
python3 shop.py FILE rename ARTIST NAME
python3 shop.py FILE report                 what was sold, and what is in the playlists
"""

import datetime
import sys
from decimal import Decimal

import django
from django.conf import settings
from django.db import models, transaction
from django.db.models import Count, F, Sum

path, command, *words = sys.argv[1:]
settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": path, "OPTIONS": {"timeout": 30}}},
    USE_TZ=True,
)
django.setup()


class Table(models.Model):
    class Meta:
        abstract = True
        managed = False
        app_label = "shop"


class Artist(Table):
    artist_id = models.AutoField(primary_key=True)
    name = models.TextField(unique=True)

    class Meta(Table.Meta):
        db_table = "artist"


class Album(Table):
    album_id = models.AutoField(primary_key=True)
    title = models.TextField()
    artist = models.ForeignKey(Artist, models.CASCADE)

    class Meta(Table.Meta):
        db_table = "album"


class Track(Table):
    track_id = models.AutoField(primary_key=True)
    name = models.TextField()
    album = models.ForeignKey(Album, models.CASCADE)
    unit_price = models.DecimalField(max_digits=6, decimal_places=2)

    class Meta(Table.Meta):
        db_table = "track"


class Playlist(Table):
    playlist_id = models.AutoField(primary_key=True)
    name = models.TextField(unique=True)

    class Meta(Table.Meta):
        db_table = "playlist"


class PlaylistTrack(Table):
    pk = models.CompositePrimaryKey("playlist_id", "track_id")
    playlist = models.ForeignKey(Playlist, models.CASCADE)
    track = models.ForeignKey(Track, models.CASCADE)

    class Meta(Table.Meta):
        db_table = "playlist_track"


class Customer(Table):
    customer_id = models.AutoField(primary_key=True)
    name = models.TextField()
    email = models.TextField(unique=True)

    class Meta(Table.Meta):
        db_table = "customer"


class Invoice(Table):
    invoice_id = models.AutoField(primary_key=True)
    customer = models.ForeignKey(Customer, models.PROTECT)
    at = models.DateTimeField()

    class Meta(Table.Meta):
        db_table = "invoice"


class InvoiceLine(Table):
    invoice_line_id = models.AutoField(primary_key=True)
    invoice = models.ForeignKey(Invoice, models.CASCADE)
    track = models.ForeignKey(Track, models.PROTECT)
    unit_price = models.DecimalField(max_digits=6, decimal_places=2)
    quantity = models.IntegerField()

    class Meta(Table.Meta):
        db_table = "invoice_line"


with transaction.atomic():
    if command == "sell":
        email, *tracks = words
        customer, _ = Customer.objects.get_or_create(email=email, defaults={"name": email.split("@")[0]})
        invoice = Invoice.objects.create(customer=customer, at=datetime.datetime.now(datetime.timezone.utc))
        for track in Track.objects.filter(name__in=tracks):
            InvoiceLine.objects.create(invoice=invoice, track=track, unit_price=track.unit_price, quantity=1)
    elif command == "playlist":
        name, *tracks = words
        playlist = Playlist.objects.create(name=name)
        PlaylistTrack.objects.bulk_create(
            PlaylistTrack(playlist=playlist, track=track) for track in Track.objects.filter(name__in=tracks))
    elif command == "rename":
        artist = Artist.objects.get(name=words[0])
        artist.name = words[1]
        artist.save()
    else:
        sales = InvoiceLine.objects.values(email=F("invoice__customer__email")).annotate(
            count=Count("*"), total=Sum("unit_price"))
        for sale in sales.order_by("email"):
            print(f"{sale['email']}: {sale['count']} tracks for {sale['total'].quantize(Decimal('0.01'))}")
        playlists = PlaylistTrack.objects.values(name=F("playlist__name")).annotate(count=Count("*"))
        for playlist in playlists.order_by("name"):
            print(f"{playlist['name']}: {playlist['count']} tracks")
        print(Artist.objects.exclude(name__startswith="Artist ").count(), "artists renamed")

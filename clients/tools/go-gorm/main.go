// GORM: AutoMigrate, repeatedly and after the classes have changed; associations, hooks, queries,
// upserts, locks.
package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"time"

	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
	"gorm.io/gorm/logger"
)

type Author struct {
	gorm.Model
	Name     string     `gorm:"size:40;not null;uniqueIndex"`
	Born     *time.Time `gorm:"type:date"`
	EditorID *uint
	Editor   *Author
	Posts    []Post `gorm:"constraint:OnDelete:CASCADE"`
}

type Post struct {
	ID       uint64 `gorm:"primaryKey"`
	AuthorID uint   `gorm:"uniqueIndex:post_once;index:post_by_price,priority:1"`
	Author   *Author
	Title    string  `gorm:"uniqueIndex:post_once;comment:as printed"`
	Price    float64 `gorm:"type:numeric(8,2);check:price >= 0;index:post_by_price,priority:2"`
	Weight   float64 `gorm:"default:0.5"`
	Printed  bool    `gorm:"not null;default:false"`
	Raw      []byte
	Meta     map[string]any `gorm:"serializer:json"`
	Tags     []Tag          `gorm:"many2many:gorm_tagged"`
	MadeAt   time.Time      `gorm:"autoCreateTime"`
}

type Tag struct {
	Word string `gorm:"primaryKey;size:9"`
}

// The same tables, later.
type PostLater struct {
	ID       uint64  `gorm:"primaryKey"`
	AuthorID uint    `gorm:"uniqueIndex:post_once;index:post_by_price,priority:1"`
	Title    string  `gorm:"size:200;uniqueIndex:post_once"`
	Price    float64 `gorm:"type:numeric(12,3);not null;default:1"`
	Rank     int     `gorm:"not null;default:7;index"`
}

func (Author) TableName() string    { return "gorm_author" }
func (Post) TableName() string      { return "gorm_post" }
func (PostLater) TableName() string { return "gorm_post" }
func (Tag) TableName() string       { return "gorm_tag" }

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func same(found, wanted any) {
	if !reflect.DeepEqual(found, wanted) {
		panic(fmt.Sprintf("found %#v instead of %#v", found, wanted))
	}
}

func migrated(db *gorm.DB) {
	must(db.Exec("drop table if exists gorm_tagged, gorm_tag, gorm_post, gorm_author").Error)
	for range 2 {
		must(db.AutoMigrate(&Author{}, &Post{}, &Tag{}))
	}
	must(db.Create(&Author{Name: "Ann", Posts: []Post{{Title: "one", Price: 1.25, Raw: []byte{0, 255}, Meta: map[string]any{"a": "b"}}}}).Error)
	for range 2 {
		must(db.AutoMigrate(&PostLater{}))
	}
	it := db.Migrator()
	same([]bool{it.HasTable("gorm_post"), it.HasTable("gorm_nowhere"), it.HasColumn(&PostLater{}, "Rank"),
		it.HasIndex(&PostLater{}, "post_once"), it.HasConstraint(&Post{}, "chk_gorm_post_price")}, []bool{true, false, true, true, true})
	columns, err := it.ColumnTypes("gorm_post")
	must(err)
	found := map[string]string{}
	for _, column := range columns {
		nullable, _ := column.Nullable()
		length, _ := column.Length()
		value, _ := column.DefaultValue()
		key, _ := column.PrimaryKey()
		found[column.Name()] = fmt.Sprint(column.DatabaseTypeName(), " ", nullable, " ", length, " ", value, " ", key)
	}
	same([]string{found["id"], found["title"], found["price"], found["rank"], found["printed"]}, []string{
		"int8 false 64  true", "varchar true 200  false", "numeric false 0 1 false",
		"int8 false 64 7 false", "bool false 8 false false"})
	must(it.RenameColumn(&Post{}, "weight", "mass"))
	must(it.RenameColumn(&Post{}, "mass", "weight"))
	must(it.DropIndex(&Post{}, "post_by_price"))
	must(it.CreateIndex(&Post{}, "post_by_price"))
	must(it.DropConstraint(&Post{}, "chk_gorm_post_price"))
	must(it.CreateConstraint(&Post{}, "chk_gorm_post_price"))
}

func families(db *gorm.DB) {
	var ann Author
	must(db.Preload("Posts").First(&ann, "name = ?", "Ann").Error)
	same([]any{len(ann.Posts), ann.Posts[0].Price, ann.Posts[0].Raw, ann.Posts[0].Meta["a"], ann.Posts[0].Weight}, []any{1, 1.25, []byte{0, 255}, "b", 0.5})
	bob := Author{Name: "Bob", Editor: &ann, Posts: []Post{{Title: "one", Tags: []Tag{{"red"}, {"green"}}}, {Title: "two", Tags: []Tag{{"red"}}}}}
	must(db.Create(&bob).Error)
	posts := make([]Post, 300)
	for n := range posts {
		posts[n] = Post{AuthorID: bob.ID, Title: fmt.Sprint("post ", n), Price: float64(n), Printed: n%2 == 0}
	}
	must(db.CreateInBatches(posts, 70).Error)
	var authors []Author
	must(db.Joins("Editor").Preload("Posts", "price < ?", 5).Preload("Posts.Tags").Order("gorm_author.name").Find(&authors).Error)
	same([]any{len(authors), len(authors[1].Posts), authors[1].Editor.Name}, []any{2, 7, "Ann"})
	same(db.Model(&bob.Posts[0]).Association("Tags").Count(), int64(2))
	must(db.Model(&bob.Posts[0]).Association("Tags").Replace(&Tag{"blue"}))
	must(db.Model(&bob.Posts[0]).Association("Tags").Append(&Tag{"red"}, &Tag{"white"}))
	must(db.Model(&bob.Posts[0]).Association("Tags").Delete(&Tag{"white"}))
	same(db.Model(&bob.Posts[0]).Association("Tags").Count(), int64(2))
}

func questions(db *gorm.DB) {
	type Sum struct {
		Printed bool
		N       int
		Total   float64
	}
	var sums []Sum
	must(db.Model(&Post{}).Select("printed, count(*) as n, sum(price) as total").Where("title like ?", "post %").Group("printed").Having("count(*) > ?", 9).Order("printed").Scan(&sums).Error)
	same(sums, []Sum{{false, 150, 22500}, {true, 150, 22350}})
	var titles []string
	must(db.Model(&Post{}).Where("author_id IN (?)", db.Model(&Author{}).Select("id").Where("name = ?", "Bob")).Where("price BETWEEN ? AND ?", 5, 8).Not("printed").Or("title = ?", "two").Order("price DESC").Limit(3).Offset(1).Pluck("title", &titles).Error)
	same(titles, []string{"post 5", "two"})
	var count int64
	must(db.Model(&Post{}).Distinct("author_id").Count(&count).Error)
	same(count, int64(2))
	rows, err := db.Model(&Post{}).Rows()
	must(err)
	defer rows.Close()
	for count = 0; rows.Next(); count++ {
		var post Post
		must(db.ScanRows(rows, &post))
	}
	same(count, int64(303))
	batches := 0
	must(db.FindInBatches(&[]Post{}, 100, func(tx *gorm.DB, batch int) error { batches = batch; return nil }).Error)
	same(batches, 4)
	must(db.Raw("with dear as (select * from gorm_post where price > @least) select count(*) from dear", map[string]any{"least": 290}).Scan(&count).Error)
	same(count, int64(9))
}

func writers(db *gorm.DB) {
	var cid Author
	for range 2 {
		must(db.Where(Author{Name: "Cid"}).FirstOrCreate(&cid).Error)
	}
	born := time.Date(1999, 12, 31, 0, 0, 0, 0, time.UTC)
	must(db.Clauses(clause.OnConflict{Columns: []clause.Column{{Name: "name"}}, DoUpdates: clause.AssignmentColumns([]string{"born"})}).Create(&Author{Name: "Cid", Born: &born}).Error)
	must(db.Clauses(clause.OnConflict{DoNothing: true}).Create(&[]Tag{{"red"}, {"grey"}}).Error)
	var changed []Post
	must(db.Model(&changed).Clauses(clause.Returning{}).Where("price > 295").Update("price", gorm.Expr("price + ?", 1)).Error)
	same([]any{len(changed), changed[0].Price > 296}, []any{4, true})
	must(db.Transaction(func(tx *gorm.DB) error {
		var post Post
		must(tx.Clauses(clause.Locking{Strength: "UPDATE", Options: "SKIP LOCKED"}).First(&post, "title = ?", "post 9").Error)
		must(tx.Clauses(clause.Locking{Strength: "NO KEY UPDATE", Table: clause.Table{Name: "gorm_post"}}).InnerJoins("Author").First(&post, "title = ?", "post 9").Error)
		err := tx.Transaction(func(inner *gorm.DB) error { return inner.Create(&Author{Name: "Ann"}).Error })
		if !errors.Is(err, gorm.ErrDuplicatedKey) {
			panic(fmt.Sprintf("no duplicated key: %v", err))
		}
		return tx.Model(&post).Updates(map[string]any{"title": "nine", "printed": true}).Error
	}))
	var count int64
	must(db.Delete(&Author{}, "name = ?", "Cid").Error)
	must(db.Model(&Author{}).Count(&count).Error)
	same(count, int64(2))
	must(db.Unscoped().Model(&Author{}).Count(&count).Error)
	same(count, int64(3))
	must(db.Select(clause.Associations).Unscoped().Delete(&Post{}, "title like ?", "post %").Error)
}

func main() {
	defer func() {
		if wrong := recover(); wrong != nil {
			fmt.Println(wrong)
			os.Exit(1)
		}
	}()
	quiet := &gorm.Config{Logger: logger.Default.LogMode(logger.Silent), TranslateError: true}
	db, err := gorm.Open(postgres.Open(""), quiet)
	must(err)
	for _, part := range []func(*gorm.DB){migrated, families, questions, writers} {
		part(db)
	}
	must(db.Migrator().DropTable("gorm_tagged", &Tag{}, &Post{}, &Author{}))
	fmt.Println("GORM over pgx")
}
